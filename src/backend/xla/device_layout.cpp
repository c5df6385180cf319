#include "backend/xla/device_layout.hpp"

namespace dtrain::backend::xla {

namespace {

// Every weight is a four-dimensional array (out, a, b, c) in canonical order, of which the device wants
// (b, c, a, out): a is input channels, b and c rows and columns of a kernel or of a dense layer's input.
struct Canonical {
  std::size_t out = 1;
  std::size_t channels = 1;
  std::size_t rows = 1;
  std::size_t columns = 1;
};

Canonical canonical_shape(const model::Model& model, const model::Parameter& parameter) {
  const auto size = [](int dim) { return static_cast<std::size_t>(dim); };
  if (parameter.dims.size() == 4) {
    return {size(parameter.dims[0]), size(parameter.dims[1]), size(parameter.dims[2]),
            size(parameter.dims[3])};
  }
  const model::Shape& in = model.layers[size(parameter.layer)].input_shapes.front();
  return {size(parameter.dims[0]), size(in.channels), size(in.height), size(in.width)};
}

template <class Move>
void for_each_pair(const Canonical& shape, const Move& move) {
  std::size_t canonical = 0;
  for (std::size_t o = 0; o < shape.out; ++o) {
    for (std::size_t c = 0; c < shape.channels; ++c) {
      for (std::size_t y = 0; y < shape.rows; ++y) {
        for (std::size_t x = 0; x < shape.columns; ++x) {
          move(canonical++, ((y * shape.columns + x) * shape.channels + c) * shape.out + o);
        }
      }
    }
  }
}

}  // namespace

Dims device_dims(const model::Model& model, const model::Parameter& parameter) {
  if (parameter.dims.size() == 1) return {parameter.dims[0]};
  const Canonical shape = canonical_shape(model, parameter);
  const auto dim = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  if (parameter.dims.size() == 4) {
    return {dim(shape.rows), dim(shape.columns), dim(shape.channels), dim(shape.out)};
  }
  return {dim(shape.rows * shape.columns * shape.channels), dim(shape.out)};
}

void to_device_order(const model::Model& model, const model::Parameter& parameter,
                     std::span<const float> canonical, std::span<float> device) {
  if (parameter.dims.size() == 1) {
    std::ranges::copy(canonical, device.begin());
    return;
  }
  for_each_pair(canonical_shape(model, parameter),
                [&](std::size_t from, std::size_t to) { device[to] = canonical[from]; });
}

void to_canonical_order(const model::Model& model, const model::Parameter& parameter,
                        std::span<const float> device, std::span<float> canonical) {
  if (parameter.dims.size() == 1) {
    std::ranges::copy(device, canonical.begin());
    return;
  }
  for_each_pair(canonical_shape(model, parameter),
                [&](std::size_t to, std::size_t from) { canonical[to] = device[from]; });
}

int parameter_of(const model::Model& model, int layer, std::string_view ending) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    if (model.parameters[p].layer == layer && model.parameters[p].name.ends_with(ending)) {
      return static_cast<int>(p);
    }
  }
  return -1;
}

}  // namespace dtrain::backend::xla
