#include "comm/compress/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/aligned_buffer.hpp"
#include "base/random.hpp"
#include "comm/compress/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/low_rank.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::comm {
namespace {

struct Shape {
  Shape(std::size_t size, std::size_t factor_rank)
      : columns(static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(size))))),
        rows((size + columns - 1) / columns),
        rank(factor_rank) {}

  bool saves(std::size_t size) const { return rank * (rows + columns) < size; }

  std::size_t columns;
  std::size_t rows;
  std::size_t rank;
};

struct State {
  State(std::size_t size, const Shape& shape, std::uint64_t seed)
      : random(seed),
        residual(size),
        p(shape.rank * shape.rows),
        q(shape.rank * shape.columns),
        own_q(q.size()) {}

  Random random;
  AlignedBuffer<float> residual;  // with the step's gradient: M
  AlignedBuffer<float> p;
  AlignedBuffer<float> q;  // of the last step: where the next begins
  AlignedBuffer<float> own_q;
};

// All processes do the same from the same numbers here, so that their bits stay the same: directions that
// were not there, or are not any more, begin anew at random.
void prepare_directions(State& state, std::size_t columns) {
  for (std::size_t first = 0; first < state.q.size(); first += columns) {
    const auto direction = state.q.span().subspan(first, columns);
    if (std::ranges::any_of(direction, [](float value) { return value != 0.0F; })) continue;
    for (float& value : direction) value = static_cast<float>(state.random.uniform() - 0.5);
  }
  kernels::orthogonalise(state.q.span(), columns);
}

// Stays visible on all processes, and begins anew where training goes on.
void give_up_step(State& state, std::span<float> data) {
  std::ranges::fill(data, std::numeric_limits<float>::quiet_NaN());
  std::ranges::fill(state.residual.span(), 0.0F);
  std::ranges::fill(state.q.span(), 0.0F);
}

class PowerSgdCompressor final : public Compressor {
 public:
  PowerSgdCompressor(int rank, std::uint64_t seed) : rank_(static_cast<std::size_t>(rank)), seed_(seed) {}

  void all_reduce(std::span<float> data, Exchange& exchange, const Deadline& deadline) override {
    if (exchange.size() == 1 || data.empty()) return;
    const Shape shape(data.size(), rank_);
    if (!shape.saves(data.size())) return exchange.all_reduce(data, deadline);
    // Buckets come in the same order everywhere, so that their number tells them apart on all alike.
    State& state = memory_.of(data, [&] { return State(data.size(), shape, mix(seed_, memory_.size())); });
    const auto m = state.residual.span();
    const auto p = state.p.span();
    const auto q = state.q.span();
    const auto own_q = state.own_q.span();
    kernels::accumulate(data, m);

    prepare_directions(state, shape.columns);
    kernels::multiply(m, shape.columns, q, p);
    exchange.all_reduce(p, deadline);
    if (!kernels::all_finite(p)) return give_up_step(state, data);
    kernels::orthogonalise(p, shape.rows);

    kernels::multiply_transposed(m, shape.columns, p, own_q);
    std::ranges::copy(own_q, q.begin());
    exchange.all_reduce(q, deadline);
    if (!kernels::all_finite(q)) return give_up_step(state, data);

    kernels::expand_product(p, q, shape.columns, data);
    // Not with the sum of all: a process would then carry along for ever how it differs from the others.
    kernels::subtract_product(p, own_q, shape.columns, m);
  }

 private:
  std::size_t rank_;
  std::uint64_t seed_;
  Memory<State> memory_;
};

}  // namespace

std::unique_ptr<Compressor> make_power_sgd_compressor(int rank, std::uint64_t seed) {
  return std::make_unique<PowerSgdCompressor>(rank, seed);
}

}  // namespace dtrain::comm
