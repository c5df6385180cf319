#include "cluster/job_client.hpp"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "cluster/control.grpc.pb.h"
#include "cluster/credentials.hpp"
#include "cluster/outbox.hpp"
#include "cluster/question.hpp"
#include "config/address.hpp"

namespace dtrain::cluster {

namespace {

std::shared_ptr<grpc::Channel> open_channel(const ChiefAddress& chief, const TlsFiles& tls) {
  quiet_grpc();
  const bool v6 = chief.ip.find(':') != std::string::npos;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(largest_message));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!tls.authority.empty()) arguments.SetSslTargetNameOverride(chief.host);
  return grpc::CreateCustomChannel((v6 ? "ipv6:" : "ipv4:") + config::join_address(chief.ip, chief.port),
                                   channel_credentials(tls), arguments);
}

}  // namespace

class JobClient::Stream : public grpc::ClientBidiReactor<wire::ToChief, wire::ToMember> {
 public:
  Stream(const ChiefAddress& chief, const std::string& token, const TlsFiles& tls, Attendant& attendant)
      : attendant_(attendant),
        stub_(wire::Job::NewStub(open_channel(chief, tls))),
        outbox_([this](const wire::ToChief& message) { StartWrite(&message); },
                [this] { StartWritesDone(); }) {
    if (!token.empty()) context_.AddMetadata(token_key, token);
    stub_->async()->Attend(&context_, this);
    StartRead(&incoming_);
    StartCall();
  }

  Outbox<wire::ToChief>& outbox() { return outbox_; }

  void cancel() {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  void wait(Seconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return done_; });
  }

  void OnReadDone(bool fine) override {
    if (fine) {
      attendant_.received(incoming_);
      StartRead(&incoming_);
    } else {
      outbox_.close();
    }
  }
  void OnWriteDone(bool fine) override { outbox_.written(fine); }
  void OnDone(const grpc::Status& status) override {
    attendant_.ended(status.error_code() == grpc::StatusCode::UNAUTHENTICATED, status.error_message());
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  Attendant& attendant_;
  std::unique_ptr<wire::Job::Stub> stub_;
  grpc::ClientContext context_;
  wire::ToMember incoming_;
  Outbox<wire::ToChief> outbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

JobClient::JobClient(const ChiefAddress& chief, const std::string& token, const TlsFiles& tls,
                     Attendant& attendant)
    : stream_(std::make_unique<Stream>(chief, token, tls, attendant)) {}

JobClient::~JobClient() { stream_->cancel(); }

void JobClient::send(wire::ToChief message) { stream_->outbox().send(std::move(message)); }
bool JobClient::idle() const { return stream_->outbox().idle(); }

void JobClient::close(Seconds patience) {
  stream_->outbox().close();
  stream_->wait(patience);
}

}  // namespace dtrain::cluster
