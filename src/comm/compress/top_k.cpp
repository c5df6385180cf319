#include "comm/compress/top_k.hpp"

#include <algorithm>
#include <cmath>

#include "base/aligned_buffer.hpp"
#include "comm/compress/memory.hpp"
#include "kernels/top_k.hpp"

namespace dtrain::comm {
namespace {

struct State {
  State(std::size_t size, std::size_t count, std::size_t ranks)
      : residual(size), mine(count), all(count * ranks) {}

  AlignedBuffer<float> residual;
  AlignedBuffer<kernels::Pair> mine;
  AlignedBuffer<kernels::Pair> all;
};

class TopKCompressor final : public Compressor {
 public:
  explicit TopKCompressor(double share) : share_(share) {}

  void all_reduce(std::span<float> data, Exchange& exchange, const Deadline& deadline) override {
    if (exchange.size() == 1 || data.empty()) return;
    const auto ranks = static_cast<std::size_t>(exchange.size());
    State& state = memory_.of(data, [&] { return State(data.size(), count_of(data.size()), ranks); });
    kernels::top_k(data, state.residual.span(), state.mine.span());
    exchange.all_gather_bytes(std::as_bytes(state.mine.span()), std::as_writable_bytes(state.all.span()),
                              deadline);
    std::ranges::fill(data, 0.0F);
    kernels::scatter_add(state.all.span(), data);
    const auto not_finite = [](float value) { return !std::isfinite(value); };
    if (std::ranges::any_of(state.mine.span(), not_finite, &kernels::Pair::value)) {
      std::ranges::replace_if(state.residual.span(), not_finite, 0.0F);  // there may be more than were sent
    }
  }

 private:
  std::size_t count_of(std::size_t size) const {
    const auto count = static_cast<std::size_t>(std::llround(share_ * static_cast<double>(size)));
    return std::clamp(count, std::size_t{1}, size);
  }

  double share_;
  Memory<State> memory_;
};

}  // namespace

std::unique_ptr<Compressor> make_top_k_compressor(double share) {
  return std::make_unique<TopKCompressor>(share);
}

}  // namespace dtrain::comm
