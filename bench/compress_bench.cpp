// A compressed all-reduce of a bucket beside memcpy of the same size, in turns in the same run, on one core.
// The exchange is one process that plays two: what it is sent is what it has sent, so that no time passes on
// the way but that of copying the compressed bytes. ratio = time / memcpy's; medians. rest = the bytes that
// are left of an all-reduce's.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/random.hpp"
#include "comm/compressor.hpp"

namespace {

using namespace dtrain;

constexpr std::size_t bucket = 25 * mib / sizeof(float);

class Echo final : public comm::Exchange {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void all_reduce(std::span<float> data, const Deadline&) override {
    for (float& value : data) value *= 2.0F;
    bytes_sent_ += data.size_bytes();
  }
  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all, const Deadline&) override {
    std::ranges::copy(mine, all.begin());
    std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(mine.size()));
    bytes_sent_ += mine.size();
  }
  void all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from, const Deadline&) override {
    std::ranges::copy(to, from.begin());
    bytes_sent_ += to.size() / 2;
  }
  void reduce_scatter(std::span<float>, const Deadline&) override {}
  void all_gather(std::span<float>, const Deadline&) override {}
  void broadcast(std::span<float>, int, const Deadline&) override {}
  void barrier(const Deadline&) override {}
  void send(std::span<const float>, int, const Deadline&) override {}
  void receive(std::span<float>, int, const Deadline&) override {}
  void abort(const std::string&) override {}
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  std::string describe_all_reduce(std::size_t) const override { return {}; }

 private:
  std::uint64_t bytes_sent_ = 0;
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void compress(benchmark::State& state, const std::string& text) {
  const auto compressor = comm::make_compressor(text, 1);
  Echo exchange;
  Random random(1);
  AlignedBuffer<float> gradients(bucket);
  for (float& value : gradients.span()) value = static_cast<float>(random.normal());
  AlignedBuffer<float> data(bucket);
  std::vector<double> reductions;
  std::vector<double> copies;
  for (auto step : state) {
    static_cast<void>(step);
    const double start = thread_seconds();
    std::memcpy(data.data(), gradients.data(), bucket * sizeof(float));
    benchmark::ClobberMemory();
    const double copied = thread_seconds();
    compressor->all_reduce(data.span(), exchange, Deadline::in(Seconds(20)));
    benchmark::ClobberMemory();
    copies.push_back(copied - start);
    reductions.push_back(thread_seconds() - copied);
    state.SetIterationTime(reductions.back());
  }
  const double whole = static_cast<double>(bucket * sizeof(float)) * static_cast<double>(copies.size());
  state.counters["median_ms"] = 1e3 * median(reductions);
  state.counters["memcpy_ms"] = 1e3 * median(copies);
  state.counters["ratio"] = median(reductions) / median(copies);
  state.counters["rest"] = static_cast<double>(exchange.bytes_sent()) / whole;
}

BENCHMARK_CAPTURE(compress, fp16, "fp16")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compress, bf16, "bf16")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compress, topk_1_percent, "topk:0.01")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compress, topk_10_percent, "topk:0.1")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compress, powersgd_1, "powersgd:1")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compress, powersgd_4, "powersgd:4")->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
