#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/address.hpp"

namespace dtrain::cluster {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }

 private:
  int value_;
};

inline constexpr const char* all_interfaces = "0.0.0.0";

// The addresses of a host, as the system looks them up; else why not.
struct Resolved {
  std::vector<std::string> ips;
  std::string problem;
};
Resolved resolve(const std::string& host);

// The interface to listen at for a host: its own where it is an address of this machine, else all (a name may
// mean one thing here and another elsewhere).
std::string interface_of(const std::string& host);

// A socket that listens at the port, and is served by nobody: for as long as it lives, the port is taken.
// Environment error that names `owner` and the port if it is in use.
Descriptor take_port(const std::string& ip, int port, const std::string& owner);

// One attempt at a connection, which is closed again.
struct Contact {
  bool made = false;
  std::string ip;        // there
  std::string local_ip;  // here, on the way there
  std::string problem;   // where it was not made
};
Contact try_connect(const config::Address& address, Seconds patience);

// The address of this machine on the way to an IP; empty where there is no way.
std::string local_ip_towards(const std::string& ip);
bool is_loopback(const std::string& ip);

}  // namespace dtrain::cluster
