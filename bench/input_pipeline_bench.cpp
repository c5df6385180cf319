// Input pipeline against memcpy: shuffle, gather and normalise, no training, on one core. Each iteration
// copies as many bytes as the pipeline puts out, in turns with it, so that the machine's drift hits both
// alike. `ratio` is the pipeline's bandwidth over memcpy's; `hand_over_us` what next() costs when a batch is
// waiting.

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/units.hpp"
#include "datasets/pipeline.hpp"
#include "datasets/synthetic.hpp"

namespace {

using dtrain::Clock;
using dtrain::datasets::BatchContent;

constexpr int batch_images = 64;
constexpr int batches = 200;
constexpr std::size_t batch_bytes = batch_images * dtrain::datasets::pixels_per_image * sizeof(float);

std::shared_ptr<const dtrain::datasets::Dataset> images() {
  static const auto dataset = [] {
    auto made = dtrain::datasets::make_synthetic({.size = 50'000, .distinct = 50'000});
    for (std::size_t i = 0; i < made->size(); ++i) benchmark::DoNotOptimize(made->pixels(i).data());
    return made;
  }();
  return dataset;
}

void stay_on_this_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(::sched_getcpu(), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = Clock::now();
  work();
  return dtrain::seconds(Clock::now() - begin);
}

// Copies from memory as large as the dataset's floats would be read from, into as many buffers as the ring
// has.
class Copy {
 public:
  void run() {
    for (int i = 0; i < batches; ++i) {
      std::memcpy(to_.data() + (i % 3) * batch_bytes, from_.data() + from_at_, batch_bytes);
      benchmark::DoNotOptimize(to_.data());
      from_at_ = (from_at_ + batch_bytes) % (from_.size() - batch_bytes);
    }
  }

 private:
  dtrain::AlignedBuffer<char> from_{256 * dtrain::mib};
  dtrain::AlignedBuffer<char> to_{3 * batch_bytes};
  std::size_t from_at_ = 0;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void input_pipeline(benchmark::State& state) {
  stay_on_this_core();
  const auto pipeline = dtrain::datasets::make_pipeline({.dataset = images(),
                                                         .global_batch = batch_images,
                                                         .augment = state.range(1) != 0,
                                                         .content = static_cast<BatchContent>(state.range(0)),
                                                         .prefetch = static_cast<int>(state.range(2))});
  Copy copy;
  std::vector<double> pipeline_seconds;
  std::vector<double> copy_seconds;
  for (auto iteration : state) {
    (void)iteration;
    copy_seconds.push_back(seconds_of([&] { copy.run(); }));
    pipeline_seconds.push_back(seconds_of([&] {
      for (int i = 0; i < batches; ++i) benchmark::DoNotOptimize(pipeline->next().images);
    }));
  }
  const double bytes = static_cast<double>(batch_bytes) * batches;
  state.counters["pipeline_GB_per_s"] = bytes / median(pipeline_seconds) * 1e-9;
  state.counters["memcpy_GB_per_s"] = bytes / median(copy_seconds) * 1e-9;
  state.counters["ratio"] = median(copy_seconds) / median(pipeline_seconds);
}

BENCHMARK(input_pipeline)
    ->ArgNames({"nhwc", "augment", "prefetch"})
    ->ArgsProduct({{0, 1}, {0, 1}, {0, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.3);

void hand_over(benchmark::State& state) {
  const auto pipeline =
      dtrain::datasets::make_pipeline({.dataset = images(), .global_batch = 1, .prefetch = 2});
  for (auto iteration : state) {
    state.PauseTiming();
    (void)iteration;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state.ResumeTiming();
    benchmark::DoNotOptimize(pipeline->next().images);
  }
}

BENCHMARK(hand_over)->Iterations(200)->Unit(benchmark::kMicrosecond);

}  // namespace
