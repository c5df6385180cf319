#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "cluster/credentials.hpp"
#include "parameter_server/shards.hpp"
#include "parameter_server/transport.hpp"

namespace dtrain::parameter_server {
namespace {

constexpr Seconds grace{2.0};  // for the server to say whom it waited for

// One worker's call to one server. Its operations end in the queue that all of the worker's links share.
struct Link {
  struct Operation {
    Link* link = nullptr;
    enum class Kind { start, write, read, finish } kind = Kind::start;
  };

  std::string name;  // "parameter server 1 (10.0.0.2:2222)"
  backend::Range range;
  int chunks = 0;
  std::uint64_t agreement = 0;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericStub> stub;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  grpc::ByteBuffer incoming;
  grpc::Status status;

  Operation start{this, Operation::Kind::start};
  Operation write{this, Operation::Kind::write};
  Operation read{this, Operation::Kind::read};
  Operation finish{this, Operation::Kind::finish};
  bool started = false;
  bool ended = false;  // finish has been asked for
  bool idle_write = true;
  bool idle_read = true;
  // Of the exchange under way.
  int to_send = 0;
  int sent = 0;
  int to_receive = 0;
  int received = 0;

  backend::Range chunk(int index) const {
    const std::size_t offset = static_cast<std::size_t>(index) * Storage::chunk_floats;
    return {range.offset + offset, std::min(Storage::chunk_floats, range.size - offset)};
  }
};

class RemoteShards final : public Shards {
 public:
  RemoteShards(const std::vector<Site>& servers, const TableConfig& config, int worker,
               const cluster::TlsFiles& tls)
      : table_(hash_of(config.name)), worker_(worker) {
    set_up_transport();
    const auto credentials = cluster::channel_credentials(tls);
    const int shards = static_cast<int>(servers.size());
    for (int index = 0; index < shards; ++index) {
      Link& link = *links_.emplace_back(std::make_unique<Link>());
      const auto& [address, token] = servers[static_cast<std::size_t>(index)];
      link.name = fmt::format("parameter server {} ({})", index, address);
      link.range = shard(config.size, index, shards);
      link.chunks = static_cast<int>(
          std::max<std::size_t>(1, (link.range.size + Storage::chunk_floats - 1) / Storage::chunk_floats));
      link.agreement = agreement_of(config, index, shards);
      link.stub = std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, credentials, channel_arguments()));
      link.context.set_wait_for_ready(true);
      link.context.AddMetadata(cluster::token_key, token);
      link.stream = link.stub->PrepareCall(&link.context, method, &queue_);
    }
  }

  ~RemoteShards() override {
    end_calls();
    queue_.Shutdown();
    void* tag = nullptr;
    bool fine = false;
    while (queue_.Next(&tag, &fine)) {
    }
  }

  Shard::Admission admit(std::uint64_t step, const Deadline& deadline) override {
    Shard::Admission admission;
    Header header = request(Kind::admit, deadline);
    header.step = step;
    plan(*links_.front(), 1, 1);
    exchange(
        deadline, [&](const Link&, int) { return encode(header); },
        [&](const Link&, const Received& message, int) {
          admission = {.in_time = message.header()->in_time != 0, .version = message.header()->step};
        });
    return admission;
  }

  Came push(const PushHead& head, std::span<const float> gradients, std::span<float> weights,
            const Deadline& deadline) override {
    Header header = request(Kind::push, deadline);
    put(header, head);
    return chunks_for_weights(header, gradients, weights, deadline);
  }

  Came catch_up(std::uint64_t version, std::uint64_t own_steps, std::span<float> weights,
                const Deadline& deadline) override {
    Header header = request(Kind::catch_up, deadline);
    header.step = version;
    header.own_steps = own_steps;
    return chunks_for_weights(header, {}, weights, deadline);
  }

  void rest(std::uint64_t own_steps) override {
    const Deadline deadline = Deadline::in(grace);
    Header header = request(Kind::rest, deadline);
    header.own_steps = own_steps;
    for (auto& link : links_) plan(*link, 1, 0);
    exchange(
        deadline, [&](const Link&, int) { return encode(header); }, no_answer);
  }

  Came read(int part, std::span<float> values, const Deadline& deadline) override {
    Header header = request(Kind::read, deadline);
    header.part = static_cast<std::uint32_t>(part);
    return chunks_for_weights(header, {}, values, deadline);
  }

  void write(int part, std::span<const float> values, const Deadline& deadline) override {
    Header header = request(Kind::write, deadline);
    header.part = static_cast<std::uint32_t>(part);
    start(deadline);
    for (auto& link : links_) plan(*link, link->chunks, 0);
    exchange(
        deadline, [&](const Link& link, int chunk) { return encode_chunk(header, link, chunk, values); },
        no_answer);
  }

  void settle(std::uint64_t times, const Deadline& deadline) override {
    start(deadline);
    Header header = request(Kind::settle, deadline);
    header.step = times;
    ask_all(header, deadline);
  }

  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) aborted_ = reason;
    }
    for (auto& link : links_) link->context.TryCancel();
  }

 private:
  static grpc::ChannelArguments channel_arguments() {
    grpc::ChannelArguments arguments;
    set_transport_arguments([&](const char* name, int value) { arguments.SetInt(name, value); });
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    return arguments;
  }

  static void no_answer(const Link&, const Received&, int) {}

  Header request(Kind kind, const Deadline& deadline) const {
    Header header = make_header(kind, table_, worker_);
    header.wait_seconds = std::clamp(seconds(deadline.at() - Clock::now()), 0.0, max_wait_seconds);
    return header;
  }

  // Once, before the first exchange: calls begin as soon as their servers listen.
  void start(const Deadline& deadline) {
    if (std::exchange(started_, true)) return;
    for (auto& link : links_) {
      link->stream->StartCall(&link->start);
      ++under_way_;
    }
    for (auto& link : links_) plan(*link, 1, 1);
    const Header header = request(Kind::hello, deadline);
    exchange(
        deadline,
        [&](const Link& link, int) {
          Header mine = header;
          mine.agreement = link.agreement;
          return encode(mine);
        },
        no_answer);
  }

  void ask_all(const Header& header, const Deadline& deadline) {
    for (auto& link : links_) plan(*link, 1, 1);
    exchange(
        deadline, [&](const Link&, int) { return encode(header); }, no_answer);
  }

  // One request a shard, or one a chunk of gradients; answered by all chunks.
  Came chunks_for_weights(const Header& header, std::span<const float> gradients, std::span<float> weights,
                          const Deadline& deadline) {
    Came came;
    const bool pushes = header.kind == Kind::push;
    for (auto& link : links_) plan(*link, pushes ? link->chunks : 1, link->chunks);
    exchange(
        deadline,
        [&](const Link& link, int chunk) {
          return pushes ? encode_chunk(header, link, chunk, gradients) : encode(header);
        },
        [&](const Link& link, const Received& message, int index) {
          const Header& answer = *message.header();
          const backend::Range range = link.chunk(index);
          if (answer.kind != Kind::values || answer.chunk != static_cast<std::uint32_t>(index) ||
              answer.count != range.size * sizeof(float)) {
            fail(run_error(fmt::format("{} answered with something else", link.name), other_build()));
          }
          message.copy_payload(weights.data() + range.offset);
          came.add({.version = answer.step,
                    .staleness = answer.staleness,
                    .finite = answer.finite != 0,
                    .weights_finite = answer.weights_finite != 0});
        });
    return came;
  }

  grpc::ByteBuffer encode_chunk(Header header, const Link& link, int chunk, std::span<const float> values) {
    const backend::Range range = link.chunk(chunk);
    header.chunk = static_cast<std::uint32_t>(chunk);
    return encode(header, values.subspan(range.offset, range.size), lent_);
  }

  static void plan(Link& link, int sends, int receives) {
    link.to_send = sends;
    link.to_receive = receives;
    link.sent = 0;
    link.received = 0;
  }

  // What was planned, on all links at once.
  template <class Make, class Take>
  void exchange(const Deadline& deadline, const Make& make, const Take& take) {
    if (failure_) throw Error(*failure_);
    if (!started_) throw std::logic_error("a table that was not initialised");
    for (auto& link : links_) advance(*link, make);
    while (Link* late = unfinished()) {
      void* tag = nullptr;
      bool fine = false;
      const auto until = std::chrono::system_clock::now() + (deadline.at() - Clock::now()) +
                         std::chrono::duration_cast<Duration>(grace);
      if (queue_.AsyncNext(&tag, &fine, until) != grpc::CompletionQueue::GOT_EVENT) {
        fail(run_error(fmt::format("{} did not {} for {:.3g} s", late->name,
                                   late->started ? "answer" : "listen", deadline.allowed().count()),
                       "see whether its process lives and can be reached"));
      }
      const auto& operation = *static_cast<Link::Operation*>(tag);
      Link& link = *operation.link;
      note(operation, fine);
      if (operation.kind == Link::Operation::Kind::read) take_answer(link, take);
      advance(link, make);
    }
  }

  // A link whose call has broken is read first: the server may have said why.
  void note(const Link::Operation& operation, bool fine) {
    using Kind = Link::Operation::Kind;
    Link& link = *operation.link;
    --under_way_;
    if (operation.kind == Kind::start) link.started = true;
    if (operation.kind == Kind::write) link.idle_write = true;
    if (operation.kind == Kind::read) link.idle_read = true;
    if (fine) return;
    if (operation.kind == Kind::write && !link.idle_read) {
      link.to_send = link.sent;
      return;
    }
    fail_broken(link);
  }

  template <class Take>
  void take_answer(Link& link, const Take& take) {
    const Received message(link.incoming);
    if (!message.header()) fail(run_error(fmt::format("{} is not one", link.name), other_build()));
    if (message.header()->kind == Kind::failure) fail(failure_of(message));
    take(link, message, link.received++);
  }

  template <class Make>
  void advance(Link& link, const Make& make) {
    if (!link.started) return;
    if (link.idle_write && link.sent < link.to_send) {
      link.idle_write = false;
      ++under_way_;
      link.stream->Write(make(link, link.sent++), &link.write);
    }
    if (link.idle_read && link.received < link.to_receive) {
      link.idle_read = false;
      ++under_way_;
      link.stream->Read(&link.incoming, &link.read);
    }
  }

  Link* unfinished() {
    for (auto& link : links_) {
      if (!link->idle_write || link->sent < link->to_send || link->received < link->to_receive)
        return link.get();
    }
    return nullptr;
  }

  static Error failure_of(const Received& message) {
    const std::string text = message.text();
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto category = message.header()->category <= static_cast<std::uint8_t>(ErrorCategory::run)
                              ? static_cast<ErrorCategory>(message.header()->category)
                              : ErrorCategory::run;
    return {category, text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
  }

  static std::string other_build() { return "start all processes with the same build of the program"; }

  [[noreturn]] void fail_broken(Link& link) {
    link.stream->Finish(&link.status, &link.finish);
    ++under_way_;
    link.ended = true;
    end_calls();
    if (link.status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      fail(
          environment_error(fmt::format("{} refuses this worker: {}", link.name, link.status.error_message()),
                            "give all processes the same DTRAIN_JOB_TOKEN"));
    }
    fail(run_error(fmt::format("{} is gone: {}", link.name,
                               link.status.ok() ? "it has ended the call" : link.status.error_message()),
                   "see why its process ended"));
  }

  [[noreturn]] void fail(Error error) {
    end_calls();
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) error = run_error(*aborted_, "see what ended the run first");
    }
    failure_ = error;
    throw Error(*failure_);
  }

  // Returns when gRPC holds nothing of the caller's any more: cancelled operations end at once.
  void end_calls() {
    for (auto& link : links_) {
      if (!link->ended) link->context.TryCancel();
    }
    void* tag = nullptr;
    bool fine = false;
    while (under_way_ > 0 && queue_.Next(&tag, &fine)) --under_way_;
    const Deadline deadline = Deadline::in(grace);  // a host that fell off the network takes nothing any more
    while (lent_.use_count() > 1 && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::uint64_t table_;
  int worker_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Link>> links_;
  std::shared_ptr<int> lent_ = std::make_shared<int>(0);  // what gRPC sends from, beside this
  int under_way_ = 0;                                     // operations whose event has not come
  bool started_ = false;
  std::optional<Error> failure_;
  std::mutex mutex_;
  std::optional<std::string> aborted_;
};

}  // namespace

std::unique_ptr<Client> connect(const std::vector<Site>& servers, const TableConfig& config, int worker,
                                const cluster::TlsFiles& tls) {
  if (servers.empty()) throw std::logic_error("a table without servers");
  return make_client(config, worker, std::make_unique<RemoteShards>(servers, config, worker, tls));
}

}  // namespace dtrain::parameter_server
