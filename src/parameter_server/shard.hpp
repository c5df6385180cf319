#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "parameter_server/server.hpp"
#include "parameter_server/storage.hpp"

namespace dtrain::parameter_server {

// What goes before a worker's gradients.
struct PushHead {
  std::uint64_t step = 0;       // sync: the update that it is for, counted from 1
  std::uint64_t own_steps = 0;  // pushes that this worker has finished, dropped ones included
  int images = 0;
  int step_images = 0;
  bool finite = true;  // all of this worker's gradients
  kernels::OptimizerStep update;
};

// One shard of a table: what happens to gradients, and who waits for whom. Knows no network. A worker calls
//   begin, deposit for each chunk, take for each chunk (which may follow its own deposit at once);
// its calls come from one thread at a time, those of several workers from any. Gradients that were deposited
// must stay until the worker's chunks are taken, or a call of it (leave too) has returned or thrown.
//
// After the first failure, a wait's deadline for instance, every call throws it.
class Shard {
 public:
  Shard(const TableConfig& config, std::size_t floats);
  virtual ~Shard() = default;

  const TableConfig& config() const { return config_; }
  const Storage& storage() const { return storage_; }

  // Worker 0 writes chunks and settles; the others settle, and wait for it. `times` counts each worker's
  // calls.
  void write(int part, int chunk, std::span<const float> values);
  void settle(int worker, std::uint64_t times, const Deadline& deadline);
  // Returns the chunk's version.
  virtual std::uint64_t read(int worker, int part, int chunk, std::span<float> values);

  // With backup workers, of the first shard: whether a gradient made for this update is in time. Where not,
  // `version` is what the worker catches up with, on all shards.
  struct Admission {
    bool in_time = true;
    std::uint64_t version = 0;
  };
  virtual Admission admit(int worker, std::uint64_t step);
  virtual void catch_up(int worker, std::uint64_t version, std::uint64_t own_steps, const Deadline& deadline);
  virtual void rest(int worker, std::uint64_t own_steps);

  virtual void begin(int worker, const PushHead& head) = 0;
  virtual void deposit(int worker, int chunk, const float* gradients) = 0;
  // Does a part of the work that there is, if any. Whoever waits in take does it too.
  virtual bool work(int /*worker*/) { return false; }
  virtual bool ready(int worker, int chunk) = 0;  // take would not wait
  struct Taken {
    std::uint64_t version = 0;
    int staleness = 0;
    bool finite = true;
    bool weights_finite = true;
  };
  virtual Taken take(int worker, int chunk, std::span<float> weights, const Deadline& deadline) = 0;

  void leave(int worker);
  void abort(const std::string& reason);

 protected:
  using Lock = std::unique_lock<std::mutex>;
  // All with the lock held.
  virtual void left(int worker) = 0;
  virtual void settled() {}
  virtual bool busy() const { return false; }  // somebody works on deposited gradients
  void fail(const Error& error);
  void throw_failure(Lock& lock);
  bool gone(int worker) const { return gone_[static_cast<std::size_t>(worker)]; }
  // Until `done`; at the deadline, fails with what `missing` says.
  template <class Done, class Missing>
  void wait(Lock& lock, const Deadline& deadline, const Done& done, const Missing& missing) {
    changed_.wait_until(lock, deadline.at(), [&] { return failure_ || done(); });
    if (!failure_ && !done()) fail(run_error(missing(), timeout_advice()));
    throw_failure(lock);
  }
  static std::string timeout_advice();

  TableConfig config_;
  Storage storage_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;

 private:
  std::vector<bool> gone_;
  std::uint64_t settled_times_ = 0;
};

// By the table's policy.
std::unique_ptr<Shard> make_shard(const TableConfig& config, std::size_t floats);
std::unique_ptr<Shard> make_sync_shard(const TableConfig& config, std::size_t floats);
std::unique_ptr<Shard> make_async_shard(const TableConfig& config, std::size_t floats);

}  // namespace dtrain::parameter_server
