#include "backend/xla/graph.hpp"

// Two ways to write the same pool. A general compiler knows windows best. XLA's for the CPU turns those into
// scalar loops, but vectorises whole-array comparisons of a window's elements, each an array of its own.
namespace dtrain::backend::xla {

namespace {

// Rows and columns that fill no whole window are left out.
Value without_rest(Writer& w, const Value& input, int size) {
  const Dims& in = input.type.dims;
  return w.slice(input, {0, 0, 0, 0}, {in[0], in[1] / size * size, in[2] / size * size, in[3]});
}

Value with_rest(Writer& w, const Value& whole, const Dims& dims) {
  const Dims& have = whole.type.dims;
  return w.pad(whole, {0, 0, 0, 0}, {0, dims[1] - have[1], dims[2] - have[2], 0});
}

// [images, rows, size, columns, size, channels]: windows' elements in dimensions of their own.
Dims split_dims(const Dims& whole, int size) {
  return {whole[0], whole[1] / size, size, whole[2] / size, size, whole[3]};
}

// Element (y, x) of every window.
Value element(Writer& w, const Value& split, int y, int x) {
  const Dims& d = split.type.dims;
  const Value one = w.slice(split, {0, 0, y, 0, x, 0}, {d[0], d[1], y + 1, d[3], x + 1, d[5]});
  return w.reshape(one, {d[0], d[1], d[3], d[5]});
}

// Keeps the number of each window's first largest element, row by row.
Activation pool_by_elements(Writer& w, const Value& input, int size) {
  const Value whole = without_rest(w, input, size);
  const Value split = w.reshape(whole, split_dims(whole.type.dims, size));
  Value largest = element(w, split, 0, 0);
  Value winner = w.constant(0.0, {Element::s32, largest.type.dims});
  for (int i = 1; i < size * size; ++i) {
    const Value next = element(w, split, i / size, i % size);
    const Value greater = w.compare("GT", next, largest);
    winner = w.select(greater, w.constant(i, winner.type), winner);
    largest = w.maximum(next, largest);
  }
  return {largest, {winner}};
}

Value gradient_by_elements(Writer& w, const Value& input, const Value& winner, const Value& gradient,
                           int size) {
  const Dims& in = input.type.dims;
  const Dims whole = {in[0], in[1] / size * size, in[2] / size * size, in[3]};
  const Dims split = split_dims(whole, size);
  const auto over_windows = [&](const Value& a) { return w.broadcast(a, split, {0, 1, 3, 5}); };
  const Type numbers{Element::s32, {size, size}};
  const Value position =
      w.add(w.multiply(w.iota(numbers, 0), w.constant(size, {Element::s32, {}})), w.iota(numbers, 1));
  const Value won = w.compare("EQ", over_windows(winner), w.broadcast(position, split, {2, 4}));
  const Value zero = w.constant(0.0, {gradient.type.element, split});
  return with_rest(w, w.reshape(w.select(won, over_windows(gradient), zero), whole), in);
}

}  // namespace

Activation write_pool(Scope& scope, const Value& input, int size) {
  Writer& w = *scope.writer;
  if (scope.target->on_cpu) return pool_by_elements(w, input, size);
  return {w.max_windows(input, size), {}};
}

Value write_pool_gradient(Scope& scope, const Value& input, const Activation& pool, const Value& gradient,
                          int size) {
  Writer& w = *scope.writer;
  if (scope.target->on_cpu) return gradient_by_elements(w, input, pool.kept.front(), gradient, size);
  const Value whole = without_rest(w, input, size);
  return with_rest(w, w.scatter_to_largest(whole, w.convert(gradient, whole.type.element), size),
                   input.type.dims);
}

}  // namespace dtrain::backend::xla
