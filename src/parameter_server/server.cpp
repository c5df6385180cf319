#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <list>
#include <thread>

#include "cluster/credentials.hpp"
#include "parameter_server/session.hpp"
#include "parameter_server/transport.hpp"

namespace dtrain::parameter_server {
namespace {

constexpr Seconds farewell{1.0};  // for calls under way when the server goes

class TableServer final : public Server {
 public:
  TableServer(const std::string& address, const Endpoint& endpoint) : token_(endpoint.token) {
    set_up_transport();
    grpc::ServerBuilder builder;
    set_transport_arguments([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    int port = 0;
    builder.AddListeningPort(address, cluster::server_credentials(endpoint.tls), &port);
    builder.RegisterAsyncGenericService(&service_);
    arrivals_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      throw environment_error(
          fmt::format("the parameter server cannot listen on {}", address),
          "see whether another process has the port, and whether the name is this host's");
    }
    address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
    acceptor_ = std::thread([this] { accept(); });
  }

  ~TableServer() override {
    tables_.abort("the parameter server has ended");
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::milliseconds>(farewell));
    acceptor_.join();
    arrivals_->Shutdown();
    drain(*arrivals_);
    for (Guest& guest : guests_) guest.thread.join();
  }

  void open(const TableConfig& config, int shard, int shards) override {
    tables_.open(config, shard, shards);
  }
  void close(const std::string& name) override { tables_.close(name); }
  void abort(const std::string& reason) override { tables_.abort(reason); }
  std::string address() const override { return address_; }

 private:
  struct Guest {
    std::unique_ptr<Call> call;
    std::thread thread;
    std::atomic<bool> gone = false;
  };

  static void drain(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool fine = false;
    while (queue.Next(&tag, &fine)) {
    }
  }

  void accept() {
    while (true) {
      auto call = std::make_unique<Call>();
      service_.RequestCall(&call->context, &call->stream, &call->queue, arrivals_.get(), call.get());
      void* tag = nullptr;
      bool fine = false;
      if (!arrivals_->Next(&tag, &fine) || !fine) {  // the server goes
        call->queue.Shutdown();
        drain(call->queue);
        return;
      }
      welcome(std::move(call));
    }
  }

  void welcome(std::unique_ptr<Call> call) {
    std::erase_if(guests_, [](Guest& guest) {
      if (!guest.gone) return false;
      guest.thread.join();
      return true;
    });
    Guest& guest = guests_.emplace_back();
    guest.call = std::move(call);
    guest.thread = std::thread([this, &guest] {
      Session(*guest.call, tables_).run(token_);
      guest.gone = true;
    });
  }

  std::string token_;
  std::string address_;
  Tables tables_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> arrivals_;
  std::unique_ptr<grpc::Server> server_;
  std::thread acceptor_;
  std::list<Guest> guests_;  // of the acceptor, until it has ended
};

}  // namespace

std::unique_ptr<Server> serve(const std::string& address, const Endpoint& endpoint) {
  return std::make_unique<TableServer>(address, endpoint);
}

}  // namespace dtrain::parameter_server
