#pragma once

#include <memory>
#include <string>

#include "cluster/control.pb.h"
#include "cluster/member.hpp"

namespace dtrain::cluster {

// What comes from the chief, on threads of the client, in order.
class Attendant {
 public:
  virtual ~Attendant() = default;
  virtual void received(wire::ToMember& message) = 0;
  // Once, last. `refused`: the token was wrong; `reason` is gRPC's text, empty where the chief ended the
  // stream in order.
  virtual void ended(bool refused, const std::string& reason) = 0;
};

struct ChiefAddress {
  std::string host;  // as it was given: TLS compares it with the chief's certificate
  std::string ip;
  int port = 0;
};

// A member's stream to the chief. Sending never waits.
class JobClient {
 public:
  JobClient(const ChiefAddress& chief, const std::string& token, const TlsFiles& tls, Attendant& attendant);
  ~JobClient();  // cuts what is still open; `ended` has been called
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  void send(wire::ToChief message);
  bool idle() const;  // all is sent
  // Ends the stream in order when all is sent, and waits so long for the chief to agree.
  void close(Seconds patience);

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace dtrain::cluster
