#pragma once

#include <string>
#include <vector>

#include "launch/file_descriptor.hpp"

namespace dtrain::launch {

// A free TCP port of this host that nobody else is given while this lives. It is bound and never listens, so
// that the process which is told of it can bind it too and listen there (with SO_REUSEADDR, as servers do).
class ReservedPort {
 public:
  // Usage error for a host that is no name or address of this machine.
  explicit ReservedPort(const std::string& host);

  int port() const { return port_; }
  std::string address() const;  // host:port

 private:
  std::string host_;
  FileDescriptor socket_;
  int port_ = 0;
};

std::vector<ReservedPort> reserve_ports(const std::string& host, int count);

}  // namespace dtrain::launch
