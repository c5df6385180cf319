#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/aligned_buffer.hpp"
#include "parameter_server/message.hpp"

namespace dtrain::parameter_server {

// A shard that is served, and which workers are connected to it.
struct OpenTable {
  OpenTable(const TableConfig& config, int shard_index, int shards)
      : shard(make_shard(config, parameter_server::shard(config.size, shard_index, shards).size)),
        agreement(agreement_of(config, shard_index, shards)) {}
  std::unique_ptr<Shard> shard;
  std::uint64_t agreement;
  std::mutex mutex;
  std::set<int> connected;
};

// The tables of a server by the hash of their names. Thread-safe.
class Tables {
 public:
  void open(const TableConfig& config, int shard, int shards);
  void close(const std::string& name);
  void abort(const std::string& reason);  // for good: nothing can be opened or found afterwards
  // Waits until it is open.
  std::shared_ptr<OpenTable> find(std::uint64_t name, const Deadline& deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::shared_ptr<OpenTable>> open_;
  std::set<std::uint64_t> closed_;
  std::optional<std::string> aborted_;
};

// A call as gRPC hands it over.
struct Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::CompletionQueue queue;
};

// Serves one call, which is one worker's way to the shard, until it ends. Blocks the thread, which belongs to
// the call.
class Session {
 public:
  Session(Call& call, Tables& tables) : call_(call), tables_(tables) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void run(const std::string& token);

 private:
  void serve();
  void greet(const Received& hello);
  void answer(const Received& request);
  void write_part(const Received& request);
  void send_part(int part);
  void push(const Received& first);
  void accept_gradients(const Received& message, int chunk);
  void start_sending(int chunk, const Deadline& deadline);
  void leave();
  void send_done(const Shard::Admission& admission = {});
  void send_failure(const Error& error);
  void finish(const grpc::Status& status);

  void start_reading();
  void start_writing(const grpc::ByteBuffer& message);
  void next_event();
  bool read();
  Deadline deadline_of(const Received& request) const;
  void demand(bool sound, const char* what) const;

  Call& call_;
  Tables& tables_;
  std::shared_ptr<OpenTable> table_;
  Shard* shard_ = nullptr;
  int worker_ = -1;
  std::shared_ptr<AlignedBuffer<float>> gradients_;  // of the shard, as they come
  std::shared_ptr<AlignedBuffer<float>>
      outgoing_;  // a copy: what is in the table may change while it is sent
  grpc::ByteBuffer incoming_;
  bool reading_ = false;
  bool writing_ = false;
  bool broken_ = false;  // the other side is gone
};

}  // namespace dtrain::parameter_server
