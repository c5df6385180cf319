#include "backend/xla/writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dtrain::backend::xla {

namespace {

std::string_view name_of(Element element) {
  switch (element) {
    case Element::f32:
      return "f32";
    case Element::bf16:
      return "bf16";
    case Element::s32:
      return "i32";
    case Element::u8:
      return "ui8";
    case Element::i1:
      return "i1";
  }
  throw std::logic_error("an element without a name");
}

bool is_float(Element element) { return element == Element::f32 || element == Element::bf16; }

std::string literal(double value, Element element) {
  if (element == Element::i1) return value != 0.0 ? "true" : "false";
  if (!is_float(element)) return fmt::format("{}", static_cast<std::int64_t>(value));
  if (!std::isinf(value)) return fmt::format("{:.9e}", value);
  const bool wide = element == Element::f32;
  if (value > 0.0) return wide ? "0x7F800000" : "0x7F80";
  return wide ? "0xFF800000" : "0xFF80";
}

std::int64_t product(const Dims& dims) {
  std::int64_t all = 1;
  for (const std::int64_t dim : dims) all *= dim;
  return all;
}

}  // namespace

std::string list(const Dims& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string Type::text() const {
  std::string shape;
  for (const std::int64_t dim : dims) shape += fmt::format("{}x", dim);
  return fmt::format("tensor<{}{}>", shape, name_of(element));
}

Value Writer::result(Type type) { return {fmt::format("%{}", values_++), std::move(type)}; }

void Writer::line(const Value& result, std::string_view text) {
  body_ += fmt::format("    {} = {}\n", result.name, text);
}

std::string Writer::operand_types(const std::vector<Value>& operands) const {
  std::vector<std::string> types;
  for (const Value& operand : operands) types.push_back(operand.type.text());
  return fmt::format("({})", fmt::join(types, ", "));
}

Value Writer::constant(double value, Type type) {
  const Value made = result(std::move(type));
  line(made,
       fmt::format("stablehlo.constant dense<{}> : {}", literal(value, made.type.element), made.type.text()));
  return made;
}

Value Writer::vector(const std::vector<float>& values) {
  const Value made = result({Element::f32, {static_cast<std::int64_t>(values.size())}});
  line(made,
       fmt::format("stablehlo.constant dense<[{:.9e}]> : {}", fmt::join(values, ", "), made.type.text()));
  return made;
}

Value Writer::iota(Type type, int along) {
  const Value made = result(std::move(type));
  line(made, fmt::format("stablehlo.iota dim = {} : {}", along, made.type.text()));
  return made;
}

Value Writer::unary(std::string_view operation, const Value& a) {
  const Value made = result(a.type);
  line(made, fmt::format("stablehlo.{} {} : {}", operation, a.name, a.type.text()));
  return made;
}

Value Writer::binary(std::string_view operation, const Value& a, const Value& b) {
  if (a.type.dims.empty() && !b.type.dims.empty()) return binary(operation, broadcast(a, b.type.dims, {}), b);
  if (b.type.dims.empty() && !a.type.dims.empty()) return binary(operation, a, broadcast(b, a.type.dims, {}));
  if (a.type != b.type) {
    throw std::logic_error(fmt::format("{} of {} and {}", operation, a.type.text(), b.type.text()));
  }
  const Value made = result(a.type);
  line(made, fmt::format("stablehlo.{} {}, {} : {}", operation, a.name, b.name, a.type.text()));
  return made;
}

Value Writer::compare(std::string_view direction, const Value& a, const Value& b) {
  const Value made = result({Element::i1, a.type.dims});
  line(made,
       fmt::format("stablehlo.compare {}, {}, {}, {} : {} -> {}", direction, a.name, b.name,
                   is_float(a.type.element) ? "FLOAT" : "SIGNED", operand_types({a, b}), made.type.text()));
  return made;
}

Value Writer::select(const Value& condition, const Value& yes, const Value& no) {
  const Value made = result(yes.type);
  line(made, fmt::format("stablehlo.select {}, {}, {} : {}, {}", condition.name, yes.name, no.name,
                         condition.type.text(), yes.type.text()));
  return made;
}

Value Writer::is_finite(const Value& a) {
  const Value made = result({Element::i1, a.type.dims});
  line(made, fmt::format("stablehlo.is_finite {} : {} -> {}", a.name, operand_types({a}), made.type.text()));
  return made;
}

Value Writer::convert(const Value& a, Element element) {
  if (a.type.element == element) return a;
  const Value made = result({element, a.type.dims});
  line(made, fmt::format("stablehlo.convert {} : {} -> {}", a.name, operand_types({a}), made.type.text()));
  return made;
}

Value Writer::broadcast(const Value& a, Dims dims, const Dims& along) {
  const Value made = result({a.type.element, std::move(dims)});
  line(made, fmt::format("stablehlo.broadcast_in_dim {}, dims = {} : {} -> {}", a.name, list(along),
                         operand_types({a}), made.type.text()));
  return made;
}

Value Writer::reshape(const Value& a, Dims dims) {
  if (a.type.dims == dims) return a;
  const Value made = result({a.type.element, std::move(dims)});
  line(made, fmt::format("stablehlo.reshape {} : {} -> {}", a.name, operand_types({a}), made.type.text()));
  return made;
}

Value Writer::transpose(const Value& a, const Dims& order) {
  Dims dims;
  for (const std::int64_t from : order) dims.push_back(a.type.dims.at(static_cast<std::size_t>(from)));
  const Value made = result({a.type.element, std::move(dims)});
  line(made, fmt::format("stablehlo.transpose {}, dims = {} : {} -> {}", a.name, list(order),
                         operand_types({a}), made.type.text()));
  return made;
}

Value Writer::reverse(const Value& a, const Dims& along) {
  const Value made = result(a.type);
  line(made, fmt::format("stablehlo.reverse {}, dims = {} : {}", a.name, list(along), a.type.text()));
  return made;
}

Value Writer::slice(const Value& a, const Dims& begin, const Dims& end) {
  Dims dims;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    dims.push_back(end[i] - begin[i]);
    ranges.push_back(fmt::format("{}:{}", begin[i], end[i]));
  }
  if (dims == a.type.dims) return a;
  const Value made = result({a.type.element, std::move(dims)});
  line(made, fmt::format("stablehlo.slice {} [{}] : {} -> {}", a.name, fmt::join(ranges, ", "),
                         operand_types({a}), made.type.text()));
  return made;
}

Value Writer::pad(const Value& a, const Dims& low, const Dims& high) {
  Dims dims = a.type.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] += low[i] + high[i];
  if (dims == a.type.dims) return a;
  const Value zero = constant(0.0, {a.type.element, {}});
  const Value made = result({a.type.element, std::move(dims)});
  line(made, fmt::format("stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : {} -> {}", a.name,
                         zero.name, list(low), list(high), list(Dims(low.size(), 0)),
                         operand_types({a, zero}), made.type.text()));
  return made;
}

Value Writer::reduce(std::string_view operation, const Value& a, double initial, const Dims& over) {
  const Value start = constant(initial, {a.type.element, {}});
  Dims dims;
  for (std::size_t i = 0; i < a.type.dims.size(); ++i) {
    if (std::ranges::find(over, static_cast<std::int64_t>(i)) == over.end()) dims.push_back(a.type.dims[i]);
  }
  const Value made = result({a.type.element, std::move(dims)});
  line(made,
       fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = {} : {} -> {}",
                   a.name, start.name, operation, list(over), operand_types({a, start}), made.type.text()));
  return made;
}

Value Writer::dot(const Value& a, const Value& b, int contract_a, int contract_b) {
  const Value made = result({Element::f32, {a.type.dims.at(1 - contract_a), b.type.dims.at(1 - contract_b)}});
  line(made, fmt::format("stablehlo.dot_general {}, {}, contracting_dims = [{}] x [{}]{} : {} -> {}", a.name,
                         b.name, contract_a, contract_b, exact_ ? ", precision = [HIGHEST, HIGHEST]" : "",
                         operand_types({a, b}), made.type.text()));
  return made;
}

Value Writer::convolution(const Value& a, const Value& b, ConvolutionForm form, Dims dims) {
  const Value made = result({Element::f32, std::move(dims)});
  const std::string precision =
      exact_ ? ", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]" : "";
  line(made, fmt::format("stablehlo.convolution({}, {}) dim_numbers = {}, window = {{stride = [1, 1], "
                         "pad = [[{}, {}], [{}, {}]]}} {{batch_group_count = 1 : i64, "
                         "feature_group_count = 1 : i64{}}} : {} -> {}",
                         a.name, b.name, form.dimensions, form.padding, form.padding, form.padding,
                         form.padding, precision, operand_types({a, b}), made.type.text()));
  return made;
}

std::string Writer::region(std::string_view operation, Element element) const {
  const std::string scalar = Type{element, {}}.text();
  return fmt::format(
      "{{\n    ^bb0(%a: {0}, %b: {0}):\n      %r = stablehlo.{1} %a, %b : {0}\n"
      "      stablehlo.return %r : {0}\n    }}",
      scalar, operation);
}

Value Writer::max_windows(const Value& a, int size) {
  const Dims& in = a.type.dims;
  const Value lowest = constant(-INFINITY, {a.type.element, {}});
  const Value made = result({a.type.element, {in[0], in[1] / size, in[2] / size, in[3]}});
  line(made, fmt::format("\"stablehlo.reduce_window\"({}, {}) <{{window_dimensions = array<i64: 1, {}, {}, "
                         "1>, window_strides = array<i64: 1, {}, {}, 1>}}> ({}) : {} -> {}",
                         a.name, lowest.name, size, size, size, size, region("maximum", a.type.element),
                         operand_types({a, lowest}), made.type.text()));
  return made;
}

Value Writer::scatter_to_largest(const Value& a, const Value& gradient, int size) {
  const std::string scalar = Type{a.type.element, {}}.text();
  const std::string first_largest = fmt::format(
      "{{\n    ^bb0(%a: {0}, %b: {0}):\n      %r = stablehlo.compare GE, %a, %b, FLOAT : ({0}, {0}) -> "
      "tensor<i1>\n      stablehlo.return %r : tensor<i1>\n    }}",
      scalar);
  const Value zero = constant(0.0, {a.type.element, {}});
  const Value made = result(a.type);
  line(made,
       fmt::format("\"stablehlo.select_and_scatter\"({}, {}, {}) <{{window_dimensions = array<i64: 1, "
                   "{}, {}, 1>, window_strides = array<i64: 1, {}, {}, 1>}}> ({}, {}) : {} -> {}",
                   a.name, gradient.name, zero.name, size, size, size, size, first_largest,
                   region("add", a.type.element), operand_types({a, gradient, zero}), made.type.text()));
  return made;
}

Value Writer::concatenate(const std::vector<Value>& vectors) {
  std::vector<std::string> names;
  std::int64_t size = 0;
  for (const Value& vector : vectors) {
    names.push_back(vector.name);
    size += vector.type.dims.at(0);
  }
  const Value made = result({vectors.front().type.element, {size}});
  line(made, fmt::format("stablehlo.concatenate {}, dim = 0 : {} -> {}", fmt::join(names, ", "),
                         operand_types(vectors), made.type.text()));
  return made;
}

Value Writer::stack(const std::vector<Value>& scalars) {
  std::vector<Value> vectors;
  for (const Value& scalar : scalars) vectors.push_back(reshape(scalar, {1}));
  return concatenate(vectors);
}

// As one vector: plugins differ in whether they take several operands in one exchange.
std::vector<Value> Writer::all_reduce(const std::vector<Value>& values, int replicas) {
  std::vector<Value> flat;
  for (const Value& value : values) flat.push_back(reshape(value, {product(value.type.dims)}));
  const Value joined = concatenate(flat);
  Dims ranks;
  for (int rank = 0; rank < replicas; ++rank) ranks.push_back(rank);
  const Value sum = result(joined.type);
  line(sum, fmt::format("\"stablehlo.all_reduce\"({}) <{{replica_groups = dense<[{}]> : tensor<1x{}xi64>}}> "
                        "({}) : {} -> {}",
                        joined.name, list(ranks), replicas, region("add", Element::f32),
                        operand_types({joined}), sum.type.text()));
  std::vector<Value> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t end = offset + flat[i].type.dims[0];
    parts.push_back(reshape(slice(sum, {offset}, {end}), values[i].type.dims));
    offset = end;
  }
  return parts;
}

}  // namespace dtrain::backend::xla
