#include "comm/compress/half.hpp"

#include <algorithm>

#include "base/aligned_buffer.hpp"
#include "comm/compress/memory.hpp"

namespace dtrain::comm {
namespace {

constexpr std::size_t block = 2048;  // elements that stay in the first cache while they are summed

// Shards are of one length, so that the last ones are padded with zeros, or are nothing else.
struct State {
  State(std::size_t size, std::size_t ranks)
      : shard((size + ranks - 1) / ranks),
        residual(size),
        shard_residual(shard),
        sent(shard * ranks),
        received(shard * ranks) {}

  std::size_t shard;
  AlignedBuffer<float> residual;
  AlignedBuffer<float> shard_residual;
  AlignedBuffer<std::uint16_t> sent;
  AlignedBuffer<std::uint16_t> received;
};

class HalfCompressor final : public Compressor {
 public:
  explicit HalfCompressor(kernels::HalfFormat format) : format_(format) {}

  void all_reduce(std::span<float> data, Exchange& exchange, const Deadline& deadline) override {
    if (exchange.size() == 1 || data.empty()) return;
    const auto ranks = static_cast<std::size_t>(exchange.size());
    State& state = memory_.of(data, [&] { return State(data.size(), ranks); });
    const auto sent = state.sent.span();
    const auto received = state.received.span();
    kernels::compress_to_half(data, state.residual.span(), sent, format_);
    exchange.all_to_all_bytes(std::as_bytes(sent), std::as_writable_bytes(received), deadline);
    const auto sum = sent.first(state.shard);  // what was sent there is not needed any more
    sum_pieces(state, ranks, sum);
    exchange.all_gather_bytes(std::as_bytes(sum), std::as_writable_bytes(received), deadline);
    kernels::expand_half(received.first(data.size()), data, format_);
  }

 private:
  void sum_pieces(State& state, std::size_t ranks, std::span<std::uint16_t> sum) {
    float values[block];
    for (std::size_t first = 0; first < state.shard; first += block) {
      const std::size_t count = std::min(block, state.shard - first);
      const std::span<float> part(values, count);
      const auto piece = [&](std::size_t rank) {
        return state.received.span().subspan(rank * state.shard + first, count);
      };
      kernels::expand_half(piece(0), part, format_);
      for (std::size_t rank = 1; rank < ranks; ++rank) kernels::add_half(piece(rank), part, format_);
      kernels::compress_to_half(part, state.shard_residual.span().subspan(first, count),
                                sum.subspan(first, count), format_);
    }
  }

  kernels::HalfFormat format_;
  Memory<State> memory_;
};

}  // namespace

std::unique_ptr<Compressor> make_half_compressor(kernels::HalfFormat format) {
  return std::make_unique<HalfCompressor>(format);
}

}  // namespace dtrain::comm
