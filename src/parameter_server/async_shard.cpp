#include <algorithm>

#include "parameter_server/shard.hpp"

namespace dtrain::parameter_server {
namespace {

// Each push is applied as it comes. With a bound, weights go back when the slowest worker is near enough; the
// bound holds on every shard by itself, and a worker goes on when all of them let it.
class AsyncShard final : public Shard {
 public:
  AsyncShard(const TableConfig& config, std::size_t floats)
      : Shard(config, floats), seats_(static_cast<std::size_t>(config.workers)) {
    for (Seat& seat : seats_) {
      seat.pulled.resize(static_cast<std::size_t>(storage_.chunks()));
      seat.taken.resize(static_cast<std::size_t>(storage_.chunks()));
    }
  }

  std::uint64_t read(int worker, int part, int chunk, std::span<float> values) override {
    const std::uint64_t version = storage_.read(part, chunk, values);
    const Lock lock(mutex_);
    if (part == 0) seat(worker).pulled[static_cast<std::size_t>(chunk)] = version;
    return version;
  }

  void begin(int worker, const PushHead& head) override {
    Lock lock(mutex_);
    throw_failure(lock);
    seat(worker).head = head;
    seat(worker).deposited = 0;
  }

  void deposit(int worker, int chunk, const float* gradients) override {
    Seat& mine = seat(worker);
    Taken& taken = mine.taken[static_cast<std::size_t>(chunk)];
    taken = {.finite = mine.head.finite};
    if (mine.head.finite) {
      const auto done = storage_.update(chunk, {gradients, storage_.chunk(chunk).size}, mine.head.update);
      taken.weights_finite = done.weights_finite;
      taken.staleness = static_cast<int>(done.version - mine.pulled[static_cast<std::size_t>(chunk)]);
      if (!done.finite) refuse(worker);
    }
    if (++mine.deposited < storage_.chunks()) return;
    const Lock lock(mutex_);
    ++mine.clock;
    changed_.notify_all();
  }

  bool ready(int worker, int) override {
    if (!config_.policy.staleness) return true;
    const Lock lock(mutex_);
    return failure_ || near_enough(worker);
  }

  Taken take(int worker, int chunk, std::span<float> weights, const Deadline& deadline) override {
    {
      Lock lock(mutex_);
      throw_failure(lock);
      if (config_.policy.staleness) {
        wait(
            lock, deadline, [&] { return near_enough(worker); },
            [&] { return too_far_ahead(worker, deadline); });
      }
    }
    Taken taken = seat(worker).taken[static_cast<std::size_t>(chunk)];
    taken.version = read(worker, 0, chunk, weights);
    return taken;
  }

 private:
  struct Seat {
    PushHead head;
    int deposited = 0;
    std::uint64_t clock = 0;            // pushes that have come as a whole
    std::vector<std::uint64_t> pulled;  // version of each chunk that the worker has
    std::vector<Taken> taken;           // of its latest push
  };

  Seat& seat(int worker) { return seats_[static_cast<std::size_t>(worker)]; }

  void left(int) override {}

  void settled() override {
    for (Seat& seat : seats_) {
      for (int chunk = 0; chunk < storage_.chunks(); ++chunk) {
        seat.pulled[static_cast<std::size_t>(chunk)] = storage_.version(chunk);
      }
    }
  }

  int slowest() const {
    int slowest = -1;
    for (int worker = 0; worker < config_.workers; ++worker) {
      if (gone(worker)) continue;
      if (slowest < 0 || clock(worker) < clock(slowest)) slowest = worker;
    }
    return slowest;
  }

  std::uint64_t clock(int worker) const { return seats_[static_cast<std::size_t>(worker)].clock; }

  bool near_enough(int worker) const {
    const int last = slowest();
    return seats_[static_cast<std::size_t>(worker)].deposited == storage_.chunks() &&
           (last < 0 || clock(worker) <= clock(last) + static_cast<std::uint64_t>(*config_.policy.staleness));
  }

  std::string too_far_ahead(int worker, const Deadline& deadline) const {
    const int last = slowest();
    return fmt::format(
        "worker {} waited {:.3g} s for worker {}, which is {} steps behind it (--staleness {})", worker,
        deadline.allowed().count(), last, clock(worker) - clock(last), *config_.policy.staleness);
  }

  [[noreturn]] void refuse(int worker) {
    Lock lock(mutex_);
    fail(run_error(fmt::format("gradients of worker {} overflow fp32 when they are unscaled", worker),
                   "lower --lr, or add --warmup-epochs"));
    throw_failure(lock);
    throw std::logic_error("a failure that is none");
  }

  std::vector<Seat> seats_;
};

}  // namespace

std::unique_ptr<Shard> make_async_shard(const TableConfig& config, std::size_t floats) {
  return std::make_unique<AsyncShard>(config, floats);
}

}  // namespace dtrain::parameter_server
