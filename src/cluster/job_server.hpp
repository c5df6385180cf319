#pragma once

#include <memory>
#include <string>

#include "cluster/control.pb.h"
#include "cluster/member.hpp"

namespace dtrain::cluster {

// A member's stream, as the chief sees it. Sending never waits.
class Seat {
 public:
  virtual ~Seat() = default;
  virtual void send(wire::ToMember message) = 0;
  // Ends the stream when all is sent.
  virtual void close() = 0;
  virtual const std::string& from() const = 0;  // an IP address
};

// What becomes of streams whose token is right. From threads of the server, in order for one seat.
class Host {
 public:
  virtual ~Host() = default;
  virtual void received(const std::shared_ptr<Seat>& seat, wire::ToChief& message) = 0;
  virtual void ended(const std::shared_ptr<Seat>& seat) = 0;
  // Somebody without the token was turned away.
  virtual void turned_away(const std::string& from, const std::string& why) = 0;
};

struct Listening {
  std::string ip;  // 0.0.0.0 or :: for all interfaces
  int port = 0;    // 0: a free one
};

// The gRPC server of a job.
class JobServer {
 public:
  // At most `most_streams` streams at once. Environment error where it cannot listen, or for a TLS file.
  JobServer(const Listening& at, const std::string& token, const TlsFiles& tls, int most_streams, Host& host);
  ~JobServer();  // cuts what is still open
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  int port() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace dtrain::cluster
