#include "cluster/job_server.hpp"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <atomic>

#include "base/error.hpp"
#include "cluster/control.grpc.pb.h"
#include "cluster/credentials.hpp"
#include "cluster/outbox.hpp"
#include "cluster/question.hpp"
#include "config/address.hpp"

namespace dtrain::cluster {

namespace {

constexpr int handshake_ms = 5'000;
constexpr int idle_ms = 10'000;
constexpr int streams_a_connection = 4;
constexpr std::size_t most_memory = std::size_t{1} << 30U;
constexpr std::chrono::milliseconds last_words{100};

// "ipv4:10.0.0.2:4711" and "ipv6:%5B::1%5D:4711", as gRPC writes them.
std::string ip_of(const std::string& peer) {
  const auto scheme = peer.find(':');
  const auto port = peer.rfind(':');
  if (scheme == std::string::npos || port <= scheme) return peer;
  std::string ip = peer.substr(scheme + 1, port - scheme - 1);
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    if (const auto at = ip.find(bracket); at != std::string::npos) ip.erase(at, std::strlen(bracket));
  }
  return ip;
}

bool same_secret(const std::string& one, grpc::string_ref other) {
  if (one.size() != other.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    different |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other.data()[i]);
  }
  return different == 0;
}

class Stream : public grpc::ServerBidiReactor<wire::ToChief, wire::ToMember>, public Seat {
 public:
  Stream(Host& host, std::string from, std::atomic<int>& open)
      : host_(host),
        from_(std::move(from)),
        open_(open),
        outbox_([this](const wire::ToMember& message) { StartWrite(&message); },
                [this] {
                  finished_ = true;
                  Finish(grpc::Status::OK);
                }) {
    ++open_;
  }
  ~Stream() override { --open_; }

  // The reactor lives until gRPC is done with it, and longer where others still hold the seat.
  void start(std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    StartRead(&incoming_);
  }

  void send(wire::ToMember message) override { outbox_.send(std::move(message)); }
  void close() override { outbox_.close(); }
  const std::string& from() const override { return from_; }

  void OnReadDone(bool fine) override {
    if (fine && !finished_) {
      host_.received(self_, incoming_);
      StartRead(&incoming_);
    } else {
      host_.ended(self_);
      outbox_.close();
    }
  }
  void OnWriteDone(bool fine) override { outbox_.written(fine); }
  void OnDone() override { self_.reset(); }

 private:
  Host& host_;
  const std::string from_;
  std::atomic<int>& open_;
  std::atomic<bool> finished_ = false;
  wire::ToChief incoming_;
  Outbox<wire::ToMember> outbox_;
  std::shared_ptr<Stream> self_;
};

// Turns a caller away.
class Refused : public grpc::ServerBidiReactor<wire::ToChief, wire::ToMember> {
 public:
  explicit Refused(const grpc::Status& why) { Finish(why); }
  void OnDone() override { delete this; }
};

class Service : public wire::Job::CallbackService {
 public:
  Service(std::string token, int most_streams, Host& host)
      : token_(std::move(token)), most_streams_(most_streams), host_(host) {}

  grpc::ServerBidiReactor<wire::ToChief, wire::ToMember>* Attend(
      grpc::CallbackServerContext* context) override {
    const std::string from = ip_of(context->peer());
    const auto& metadata = context->client_metadata();
    const auto token = metadata.find(token_key);
    if (token == metadata.end() ? !token_.empty() : !same_secret(token_, token->second)) {
      host_.turned_away(from, token == metadata.end() ? "no token" : "another token");
      return std::make_unique<Refused>(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "")).release();
    }
    if (open_ >= most_streams_) {
      host_.turned_away(from, "too many connections");
      return std::make_unique<Refused>(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "")).release();
    }
    const auto stream = std::make_shared<Stream>(host_, from, open_);
    stream->start(stream);
    return stream.get();
  }

 private:
  const std::string token_;
  const int most_streams_;
  Host& host_;
  std::atomic<int> open_ = 0;
};

}  // namespace

struct JobServer::Implementation {
  Implementation(const std::string& token, int most_streams, Host& host)
      : service(token, most_streams, host) {}

  Service service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

JobServer::JobServer(const Listening& at, const std::string& token, const TlsFiles& tls, int most_streams,
                     Host& host)
    : implementation_(std::make_unique<Implementation>(token, most_streams, host)) {
  quiet_grpc();
  const std::string address = config::join_address(at.ip, at.port);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(largest_message));
  builder.SetResourceQuota(grpc::ResourceQuota("job").Resize(most_memory));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, handshake_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, idle_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams_a_connection);
  builder.AddListeningPort(address, server_credentials(tls), &implementation_->port);
  builder.RegisterService(&implementation_->service);
  implementation_->server = builder.BuildAndStart();
  if (implementation_->server != nullptr && implementation_->port != 0) return;
  throw environment_error(
      fmt::format("cannot listen at port {} of {}{}", at.port, at.ip, tls.key.empty() ? "" : " with TLS"),
      tls.key.empty()
          ? "choose another port"
          : fmt::format("see whether {} is the key of {}, or choose another port", tls.key, tls.certificate));
}

JobServer::~JobServer() {
  if (implementation_->server == nullptr) return;
  implementation_->server->Shutdown(std::chrono::system_clock::now() + last_words);
  implementation_->server->Wait();
}

int JobServer::port() const { return implementation_->port; }

}  // namespace dtrain::cluster
