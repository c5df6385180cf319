#include "backend/cpu/layouts.hpp"

#include <optional>
#include <stdexcept>

namespace dtrain::backend::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

std::optional<ActivationLayout> known_layout(const memory::desc& desc) {
  const auto channels = static_cast<int>(desc.dims()[1]);
  const ActivationLayout known[] = {
      {Tag::nChw8c, 8}, {Tag::nChw16c, 16}, {Tag::nchw, 1}, {Tag::nhwc, channels}};
  for (const auto& layout : known) {
    if (desc == memory::desc(desc.dims(), memory::data_type::f32, layout.tag)) return layout;
  }
  return std::nullopt;
}

}  // namespace

ActivationLayout layout_of(const memory::desc& desc) {
  if (const auto layout = known_layout(desc)) return *layout;
  throw std::logic_error("activation in a layout that no kernel reads");
}

memory::desc convolution_input(const dnnl::engine& engine, int images, const model::Shape& shape) {
  constexpr auto f32 = memory::data_type::f32;
  const memory::dims activation{images, shape.channels, shape.height, shape.width};
  const memory::dims weights{shape.channels, shape.channels, 3, 3};
  const memory::dims ones{1, 1};
  const memory::desc any(activation, f32, Tag::any);
  const dnnl::convolution_forward::primitive_desc convolution({dnnl::prop_kind::forward_training,
                                                               dnnl::algorithm::convolution_direct,
                                                               any,
                                                               {weights, f32, Tag::any},
                                                               any,
                                                               ones,
                                                               ones,
                                                               ones},
                                                              engine);
  const memory::desc wanted = convolution.src_desc();
  return known_layout(wanted) ? wanted : memory::desc(activation, f32, Tag::nchw);
}

memory::desc with_images(const memory::desc& desc, int images) {
  memory::dims dims = desc.dims();
  dims[0] = images;
  return {dims, memory::data_type::f32, layout_of(desc).tag};
}

}  // namespace dtrain::backend::cpu
