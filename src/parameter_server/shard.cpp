#include "parameter_server/shard.hpp"

#include "comm/communicator.hpp"

namespace dtrain::parameter_server {

backend::Range shard(std::size_t size, int index, int shards) { return comm::shard_of(size, index, shards); }

std::unique_ptr<Shard> make_shard(const TableConfig& config, std::size_t floats) {
  return config.policy.async ? make_async_shard(config, floats) : make_sync_shard(config, floats);
}

Shard::Shard(const TableConfig& config, std::size_t floats)
    : config_(config),
      storage_(config.optimizer, floats),
      gone_(static_cast<std::size_t>(config.workers), false) {}

std::string Shard::timeout_advice() {
  return "see why it is late, or give --timeout more than a step of the slowest worker takes";
}

void Shard::write(int part, int chunk, std::span<const float> values) { storage_.write(part, chunk, values); }

std::uint64_t Shard::read(int, int part, int chunk, std::span<float> values) {
  return storage_.read(part, chunk, values);
}

void Shard::settle(int worker, std::uint64_t times, const Deadline& deadline) {
  Lock lock(mutex_);
  throw_failure(lock);
  if (worker == 0) {
    settled_times_ = times;
    settled();
    changed_.notify_all();
    return;
  }
  wait(
      lock, deadline, [&] { return settled_times_ >= times; },
      [&] {
        return fmt::format("worker {} waited {:.3g} s for the weights of worker 0", worker,
                           deadline.allowed().count());
      });
}

Shard::Admission Shard::admit(int, std::uint64_t) { return {}; }
void Shard::catch_up(int, std::uint64_t, std::uint64_t, const Deadline&) {}
void Shard::rest(int, std::uint64_t) {}

void Shard::leave(int worker) {
  Lock lock(mutex_);
  if (gone(worker)) return;
  gone_[static_cast<std::size_t>(worker)] = true;
  left(worker);
  changed_.notify_all();
  changed_.wait(lock, [&] { return !failure_ || !busy(); });
}

void Shard::abort(const std::string& reason) {
  const Lock lock(mutex_);
  fail(run_error(reason, "see what ended the run first"));
}

void Shard::fail(const Error& error) {
  if (!failure_) failure_ = error;
  changed_.notify_all();
}

void Shard::throw_failure(Lock& lock) {
  if (!failure_) return;
  changed_.wait(lock, [&] { return !busy(); });
  throw Error(*failure_);
}

}  // namespace dtrain::parameter_server
