#include "comm/gloo/algorithms.hpp"

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>

#include "base/text.hpp"
#include "kernels/reduce.hpp"

namespace dtrain::comm {

namespace {

// Gloo's own loop leaves the vector units of newer processors unused.
void add(float* to, const float* from, std::size_t count) {
  float* const buffers[] = {to, const_cast<float*>(from)};
  kernels::sum_into_one(buffers, 0, 0, count);
}

void add_apart(void* to, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<float*>(to);
  const auto* left = static_cast<const float*>(a);
  const auto* right = static_cast<const float*>(b);
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

// Algorithms that keep memory and connections of their own, bound to the buffer.
template <template <class> class Algorithm>
class Bound final : public GlooReduction {
 public:
  Bound(const std::shared_ptr<gloo::Context>& context, std::span<float> data)
      : sum_(gloo::SUM, &add),
        algorithm_(std::make_unique<Algorithm<float>>(context, std::vector<float*>{data.data()},
                                                      static_cast<int>(data.size()), &sum_)) {}
  void run(const Deadline&, std::uint32_t) override { algorithm_->run(); }

 private:
  gloo::ReductionFunction<float> sum_;
  std::unique_ptr<Algorithm<float>> algorithm_;
};

template <template <class> class Algorithm>
std::unique_ptr<GlooReduction> make_bound(const std::shared_ptr<gloo::Context>& context,
                                          std::span<float> data) {
  return std::make_unique<Bound<Algorithm>>(context, data);
}

// Algorithms that take any buffer at any time.
template <gloo::AllreduceOptions::Algorithm algorithm>
class Unbound final : public GlooReduction {
 public:
  Unbound(const std::shared_ptr<gloo::Context>& context, std::span<float> data)
      : context_(context), data_(data) {}

  void run(const Deadline& deadline, std::uint32_t number) override {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.at() - Clock::now());
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm);
    options.setOutput(data_.data(), data_.size());
    options.setReduceFunction(&add_apart);
    options.setTag(number);
    options.setTimeout(std::max(left, std::chrono::milliseconds(1)));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::span<float> data_;
};

template <gloo::AllreduceOptions::Algorithm algorithm>
std::unique_ptr<GlooReduction> make_unbound(const std::shared_ptr<gloo::Context>& context,
                                            std::span<float> data) {
  return std::make_unique<Unbound<algorithm>>(context, data);
}

}  // namespace

// Gloo's older ring and bcube are not here: the ring gives every process other bits from three processes on,
// and bcube wrong sums where their number is no power of two.
const Registry<GlooReductionMaker>& gloo_algorithms() {
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  static const Registry<GlooReductionMaker> registry = [] {
    Registry<GlooReductionMaker> table("--allreduce algorithm");
    table.add("ring", "a ring, by segments", &make_unbound<Algorithm::RING>);
    table.add("ring_chunked", "a ring of two chunks a process, in flight together",
              &make_bound<gloo::AllreduceRingChunked>);
    table.add("halving_doubling", "halves to ever farther processes: few messages",
              &make_bound<gloo::AllreduceHalvingDoubling>);
    table.add("bcube", "groups of a few processes, level by level", &make_unbound<Algorithm::BCUBE>);
    return table;
  }();
  return registry;
}

namespace {

// Over Linux's loopback device, whose packets hold 64 KiB, messages of about that size wait 40 ms for an
// acknowledgement, measured with every algorithm of Gloo.
bool stalls(std::size_t message) { return message >= 60 * kib && message <= 68 * kib; }

// It sends a half, a quarter, ... of the data.
bool halving_stalls(std::size_t bytes, int processes) {
  std::size_t message = bytes;
  for (int parts = 2; parts <= processes; parts *= 2) {
    message /= 2;
    if (stalls(message)) return true;
  }
  return false;
}

bool chunks_stall(std::size_t bytes, int processes) {
  return stalls(bytes / (2 * static_cast<std::size_t>(processes)));
}

}  // namespace

std::string choose_gloo_algorithm(std::size_t bytes, int processes) {
  const std::size_t few_messages = processes == 2 ? 64 * kib : 512 * kib;
  const bool halve = bytes <= few_messages
                         ? !halving_stalls(bytes, processes) || chunks_stall(bytes, processes)
                         : chunks_stall(bytes, processes) && !halving_stalls(bytes, processes);
  return halve ? "halving_doubling" : "ring_chunked";
}

void check_gloo_algorithm(const std::string& name) {
  if (name == "auto" || gloo_algorithms().find(name) != nullptr) return;
  std::vector<std::string> known = gloo_algorithms().names();
  known.insert(known.begin(), "auto");
  const auto close = nearest(name, known);
  throw usage_error(
      fmt::format("--allreduce: unknown algorithm '{}'", name),
      (close ? fmt::format("did you mean '{}'? ", *close) : "") + "known: " + join(known, ", "));
}

}  // namespace dtrain::comm
