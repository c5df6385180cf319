#include <algorithm>

#include "kernels/elementwise.hpp"
#include "parameter_server/shard.hpp"

namespace dtrain::parameter_server {
namespace {

// One update a step, a round. It is full when all gradients that it needs have begun to come; then a chunk is
// summed and updated as soon as they all have it, by whichever worker's thread is at hand.
class SyncShard final : public Shard {
 public:
  SyncShard(const TableConfig& config, std::size_t floats)
      : Shard(config, floats),
        seats_(static_cast<std::size_t>(config.workers)),
        chunks_(static_cast<std::size_t>(storage_.chunks())) {
    for (Seat& seat : seats_) {
      seat.gradients.resize(chunks_.size());
      seat.sum = AlignedBuffer<float>(storage_.chunk(0).size);
    }
  }

  Admission admit(int worker, std::uint64_t step) override {
    Lock lock(mutex_);
    throw_failure(lock);
    seat(worker).resting = false;
    if (step != version_ + 1) return {.in_time = false, .version = version_};
    if (round_.full || round_.admitted >= config_.workers - config_.policy.backups) {
      return {.in_time = false, .version = step};
    }
    ++round_.admitted;
    return {.version = version_};
  }

  void catch_up(int worker, std::uint64_t version, std::uint64_t own_steps,
                const Deadline& deadline) override {
    Lock lock(mutex_);
    throw_failure(lock);
    seat(worker).resting = false;
    seat(worker).own_steps = own_steps;
    wait(
        lock, deadline, [&] { return version_ >= version; }, [&] { return nobody_came(worker, deadline); });
  }

  void rest(int worker, std::uint64_t own_steps) override {
    Lock lock(mutex_);
    throw_failure(lock);
    seat(worker).resting = true;
    seat(worker).own_steps = own_steps;
    close_if_full();
  }

  void begin(int worker, const PushHead& head) override {
    Lock lock(mutex_);
    throw_failure(lock);
    Seat& mine = seat(worker);
    if (head.step != version_ + 1 || round_.full || mine.here) {
      fail(run_error(fmt::format("worker {} sent gradients for update {}, and the table is at update {}",
                                 worker, head.step, version_ + 1),
                     "start all workers again together"));
      throw_failure(lock);
    }
    mine.here = true;
    mine.resting = false;
    mine.head = head;
    mine.own_steps = head.own_steps;
    ++round_.members;
    if (config_.policy.backups == 0) need_everybody();
    throw_failure(lock);
    close_if_full();
  }

  void deposit(int worker, int chunk, const float* gradients) override {
    Lock lock(mutex_);
    throw_failure(lock);
    seat(worker).gradients[static_cast<std::size_t>(chunk)] = gradients;
    ++chunks_[static_cast<std::size_t>(chunk)].arrived;
    make_ready(chunk);
  }

  bool work(int worker) override {
    Lock lock(mutex_);
    return work_on_next(worker, lock);
  }

  bool ready(int worker, int chunk) override {
    const Lock lock(mutex_);
    return failure_ || is_done(worker, chunk);
  }

  Taken take(int worker, int chunk, std::span<float> weights, const Deadline& deadline) override {
    Taken taken;
    {
      Lock lock(mutex_);
      while (!failure_ && !is_done(worker, chunk)) {
        if (work_on_next(worker, lock)) continue;
        wait(
            lock, deadline, [&] { return is_done(worker, chunk) || anything_ready(); },
            [&] { return nobody_came(worker, deadline); });
      }
      throw_failure(lock);
      taken.finite = seat(worker).finite;
      taken.weights_finite = chunks_[static_cast<std::size_t>(chunk)].weights_finite;
    }
    taken.version = storage_.read(0, chunk, weights);
    return taken;
  }

 private:
  struct Seat {
    bool here = false;  // its gradients are in this round
    bool resting = false;
    std::uint64_t own_steps = 0;
    PushHead head;
    std::vector<const float*> gradients;  // by chunk
    bool finite = true;                   // of the last round that it was in
    AlignedBuffer<float> sum;             // for chunks that its thread works on
  };
  struct Chunk {
    int arrived = 0;         // of the round
    std::uint64_t done = 0;  // rounds
    bool weights_finite = true;
  };
  struct Round {
    int admitted = 0;
    int members = 0;
    bool full = false;
    bool finite = true;
    int chunks_done = 0;
    kernels::OptimizerStep update;
  };

  Seat& seat(int worker) { return seats_[static_cast<std::size_t>(worker)]; }
  const Seat& seat(int worker) const { return seats_[static_cast<std::size_t>(worker)]; }

  bool busy() const override { return working_ > 0; }

  bool anything_ready() const { return next_ready_ < ready_.size(); }

  bool is_done(int worker, int chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)].done >= seat(worker).head.step;
  }

  void left(int worker) override {
    if (seat(worker).here) {
      fail(run_error(fmt::format("worker {} left in the middle of update {}", worker, version_ + 1),
                     "see why it ended"));
    } else if (config_.policy.backups == 0 && round_.members > 0) {
      need_everybody();
    } else {
      close_if_full();
    }
  }

  void need_everybody() {
    for (int worker = 0; worker < config_.workers; ++worker) {
      if (!gone(worker)) continue;
      fail(run_error(
          fmt::format("update {} needs the gradients of worker {}, which has left", version_ + 1, worker),
          "see why it ended"));
    }
  }

  // Gradients that complete the round. A worker that rests with more steps behind it than one that is waiting
  // here will not come before that one has caught up.
  int needed() const {
    const int most = config_.workers - config_.policy.backups;
    if (config_.policy.backups == 0) return most;
    std::uint64_t least = ~std::uint64_t{0};
    for (const Seat& seat : seats_) {
      if (seat.here) least = std::min(least, seat.own_steps);
    }
    int away = 0;
    for (int worker = 0; worker < config_.workers; ++worker) {
      const Seat& other = seat(worker);
      if (gone(worker) || (other.resting && other.own_steps > least)) ++away;
    }
    return std::clamp(config_.workers - away, 1, most);
  }

  void close_if_full() {
    if (round_.full || round_.members < needed()) return;
    round_.full = true;
    int images = 0;
    const PushHead* lowest = nullptr;
    for (Seat& seat : seats_) {
      if (!seat.here) continue;
      if (lowest == nullptr) lowest = &seat.head;
      images += seat.head.images;
      round_.finite = round_.finite && seat.head.finite;
      agree(*lowest, seat.head);
    }
    for (Seat& seat : seats_) {
      if (seat.here) seat.finite = round_.finite;
    }
    round_.update = lowest->update;
    if (images > 0 && images < lowest->step_images) {
      round_.update.gradient_unscale *= static_cast<double>(lowest->step_images) / images;
    }
    for (int chunk = 0; chunk < storage_.chunks(); ++chunk) make_ready(chunk);
  }

  void agree(const PushHead& one, const PushHead& other) {
    if (one.update.gradient_unscale == other.update.gradient_unscale &&
        one.step_images == other.step_images) {
      return;
    }
    fail(
        run_error(fmt::format("workers do not agree on update {}: loss scale {:g} and {:g}, images {} and {}",
                              one.step, 1.0 / one.update.gradient_unscale,
                              1.0 / other.update.gradient_unscale, one.step_images, other.step_images),
                  "start all workers with the same options"));
  }

  void make_ready(int chunk) {
    if (!round_.full || chunks_[static_cast<std::size_t>(chunk)].arrived != round_.members) return;
    ready_.push_back(chunk);
    changed_.notify_all();
  }

  bool work_on_next(int worker, Lock& lock) {
    if (failure_ || !anything_ready()) return false;
    const int chunk = ready_[next_ready_++];
    ++working_;
    lock.unlock();
    const Storage::Update done = update(worker, chunk);
    lock.lock();
    --working_;
    finish(chunk, done);
    changed_.notify_all();
    return true;
  }

  // Without the lock: what a full round is made of stays until its last chunk is done.
  Storage::Update update(int worker, int chunk) {
    if (!round_.finite) return {.version = storage_.skip(chunk)};
    const std::size_t size = storage_.chunk(chunk).size;
    const std::span<float> sum = seat(worker).sum.span().first(size);
    std::span<const float> total;
    for (const Seat& other : seats_) {
      if (!other.here) continue;
      const std::span<const float> theirs(other.gradients[static_cast<std::size_t>(chunk)], size);
      if (total.empty()) {
        total = theirs;
      } else if (total.data() != sum.data()) {
        kernels::add(total, theirs, sum);
        total = sum;
      } else {
        kernels::accumulate(theirs, sum);
      }
    }
    return storage_.update(chunk, total, round_.update);
  }

  void finish(int index, const Storage::Update& done) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(index)];
    chunk.done = version_ + 1;
    chunk.arrived = 0;
    chunk.weights_finite = done.weights_finite;
    if (!done.finite) {
      fail(run_error(
          fmt::format("the sum of the workers' gradients overflows fp32 in update {}, and each is finite",
                      version_ + 1),
          "lower --lr, or add --warmup-epochs"));
    }
    if (++round_.chunks_done < storage_.chunks()) return;
    round_ = {};
    ready_.clear();
    next_ready_ = 0;
    for (Seat& seat : seats_) seat.here = false;
    ++version_;
  }

  std::string nobody_came(int worker, const Deadline& deadline) const {
    std::vector<std::string> missing;
    for (int other = 0; other < config_.workers; ++other) {
      if (other != worker && is_missing(other)) missing.push_back(std::to_string(other));
    }
    return fmt::format("worker {} waited {:.3g} s for the gradients of worker{} {} in update {}", worker,
                       deadline.allowed().count(), missing.size() > 1 ? "s" : "", join(missing, ", "),
                       version_ + 1);
  }

  // Of a full round: a worker whose gradients have begun to come, and stopped.
  bool is_missing(int worker) const {
    if (!round_.full) return !seat(worker).here && !gone(worker);
    return seat(worker).here;
  }

  std::vector<Seat> seats_;
  std::vector<Chunk> chunks_;
  std::vector<int> ready_;      // chunks of this round that all gradients have come for
  std::size_t next_ready_ = 0;  // the first that nobody has taken up
  Round round_;
  std::uint64_t version_ = 0;  // rounds that are over
  int working_ = 0;            // threads that look at deposited gradients
};

}  // namespace

std::unique_ptr<Shard> make_sync_shard(const TableConfig& config, std::size_t floats) {
  return std::make_unique<SyncShard>(config, floats);
}

}  // namespace dtrain::parameter_server
