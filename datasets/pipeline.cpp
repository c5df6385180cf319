#include "datasets/pipeline.hpp"

#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "datasets/batch_maker.hpp"

namespace dtrain::datasets {

namespace {

// Prepares each micro-batch when it is asked for.
class DirectPipeline final : public Pipeline {
 public:
  explicit DirectPipeline(const PipelineConfig& config)
      : maker_(config), slot_(config.content, maker_.largest_batch()) {}

  const MicroBatch& next() override {
    maker_.make(slot_);
    return slot_.batch;
  }
  bool ready() override { return true; }
  int steps_per_epoch() const override { return maker_.steps_per_epoch(); }
  void seek(std::int64_t step) override { maker_.seek(step); }

 private:
  BatchMaker maker_;
  BatchSlot slot_;
};

void pin_this_thread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  if (const int failed = ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set); failed != 0) {
    throw environment_error(
        fmt::format("input pipeline: cannot run on cores {}: {}", fmt::join(cores, ","),
                    std::strerror(failed)),
        "these cores are not this process's to use: see the cores that `dtrain info` lists");
  }
}

// A thread prepares micro-batches ahead, into a ring that has room for one more than `prefetch`: the one in
// the replica's hands. It shares the replica's cores, so it sleeps whenever the ring is full.
class PrefetchPipeline final : public Pipeline {
 public:
  explicit PrefetchPipeline(const PipelineConfig& config)
      : maker_(config), rank_(config.rank), cores_(config.cores), timeout_(config.timeout) {
    for (int i = 0; i <= config.prefetch; ++i) {
      ring_.emplace_back(config.content, maker_.largest_batch());
    }
    start();
  }
  ~PrefetchPipeline() override { stop(); }

  const MicroBatch& next() override {
    std::unique_lock lock(mutex_);
    given_back_ = taken_;
    space_.notify_one();
    if (!ready_.wait_for(lock, timeout_, [this] { return made_ > taken_ || error_; })) {
      throw run_error(fmt::format("rank {}: the input pipeline has not delivered a micro-batch for {:g} s",
                                  rank_, timeout_.count()),
                      "the data may be on a file system that does not answer; copy it to a local disk");
    }
    if (made_ == taken_) std::rethrow_exception(error_);
    return slot(taken_++).batch;
  }

  bool ready() override {
    const std::lock_guard lock(mutex_);
    return made_ > taken_;
  }

  int steps_per_epoch() const override { return maker_.steps_per_epoch(); }

  void seek(std::int64_t step) override {
    stop();
    maker_.seek(step);
    start();
  }

 private:
  BatchSlot& slot(std::uint64_t number) { return ring_[number % ring_.size()]; }

  void start() {
    made_ = taken_ = given_back_ = 0;
    stopping_ = false;
    error_ = nullptr;
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    space_.notify_one();
    thread_.join();
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "dtrain-input");
    try {
      pin_this_thread(cores_);
      while (wait_for_space()) {
        maker_.make(slot(made_));
        const std::lock_guard lock(mutex_);
        ++made_;
        ready_.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      ready_.notify_one();
    }
  }

  bool wait_for_space() {
    std::unique_lock lock(mutex_);
    space_.wait(lock, [this] { return stopping_ || made_ - given_back_ < ring_.size(); });
    return !stopping_;
  }

  BatchMaker maker_;
  int rank_;
  std::vector<int> cores_;
  Seconds timeout_;
  std::vector<BatchSlot> ring_;

  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable space_;
  std::uint64_t made_ = 0;        // micro-batches since the last seek: prepared,
  std::uint64_t taken_ = 0;       // handed over,
  std::uint64_t given_back_ = 0;  // and done with
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Pipeline> make_pipeline(const PipelineConfig& config) {
  if (config.prefetch == 0) return std::make_unique<DirectPipeline>(config);
  return std::make_unique<PrefetchPipeline>(config);
}

}  // namespace dtrain::datasets
