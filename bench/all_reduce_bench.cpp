// All-reduce between threads, one pinned to each core, beside memcpy of the same size, in turns in the same
// run. algbw = bytes / time from the first rank's start to the last rank's end. Both work on data that its
// rank has just written, as backward leaves it. ratio = algbw / memcpy's bandwidth; medians.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "comm/communicator.hpp"

namespace {

using namespace dtrain;

struct Span {
  TimePoint begin;
  TimePoint end;
};

std::unique_ptr<comm::LocalGroup> group;
std::vector<Span> spans;

void set_up(const benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(1));
  const bool oversubscribed = ranks > static_cast<int>(std::thread::hardware_concurrency());
  group = comm::local_communicators()
              .at("shared_memory")
              .value({.size = ranks, .oversubscribed = oversubscribed});
  spans.assign(static_cast<std::size_t>(ranks), {});
}

void tear_down(const benchmark::State&) { group.reset(); }

// Restores the thread's cores, because the benchmark's main thread is one of the ranks.
class Pin {
 public:
  explicit Pin(int rank) {
    CPU_ZERO(&before_);
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    int left = rank % std::max(1, CPU_COUNT(&before_));
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_) || left-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      pthread_setaffinity_np(pthread_self(), sizeof one, &one);
      break;
    }
  }
  ~Pin() { pthread_setaffinity_np(pthread_self(), sizeof before_, &before_); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  cpu_set_t before_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void all_reduce(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const int rank = state.thread_index();
  const Pin pin(rank);
  const auto communicator = group->join(rank);
  AlignedBuffer<float> data(bytes / sizeof(float));
  AlignedBuffer<float> copy(bytes / sizeof(float));
  const auto deadline = [] { return Deadline::in(Seconds(20)); };
  std::vector<double> reductions;
  std::vector<double> copies;

  for (auto step : state) {
    static_cast<void>(step);
    std::fill_n(data.data(), data.size(), 1.0F);
    communicator->barrier(deadline());
    Span& mine = spans[static_cast<std::size_t>(rank)];
    mine.begin = Clock::now();
    communicator->wait(communicator->all_reduce(data.span(), {}), deadline());
    mine.end = Clock::now();
    communicator->barrier(deadline());
    TimePoint begin = mine.begin;
    TimePoint end = mine.end;
    for (const Span& span : spans) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    reductions.push_back(seconds(end - begin));
    state.SetIterationTime(reductions.back());

    if (rank == 0) {
      std::fill_n(data.data(), data.size(), 1.0F);
      const TimePoint start = Clock::now();
      std::memcpy(copy.data(), data.data(), bytes);
      benchmark::ClobberMemory();
      copies.push_back(seconds(Clock::now() - start));
    }
    communicator->barrier(deadline());
  }
  if (rank != 0) return;
  const double size = static_cast<double>(bytes);
  state.counters["median_us"] = 1e6 * median(reductions);
  state.counters["algbw_GB/s"] = 1e-9 * size / median(reductions);
  state.counters["memcpy_GB/s"] = 1e-9 * size / median(copies);
  state.counters["ratio"] = median(copies) / median(reductions);
}

void sizes(benchmark::internal::Benchmark* benchmark, int ranks) {
  benchmark->ArgNames({"bytes", "ranks"});
  for (const std::size_t bytes : {std::size_t{64}, 480 * kib, 25 * mib}) {
    benchmark->Args({static_cast<std::int64_t>(bytes), ranks});
  }
  benchmark->Threads(ranks)->Setup(set_up)->Teardown(tear_down)->UseManualTime();
}

BENCHMARK(all_reduce)->Apply([](auto* b) { sizes(b, 2); });
BENCHMARK(all_reduce)->Apply([](auto* b) { sizes(b, 4); });

}  // namespace
