#include "backend/cpu/layouts.hpp"

#include <stdexcept>

namespace dtrain::backend::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

ActivationLayout layout_of(const memory::desc& desc) {
  const auto channels = static_cast<int>(desc.dims()[1]);
  const ActivationLayout known[] = {
      {Tag::nChw8c, 8}, {Tag::nChw16c, 16}, {Tag::nchw, 1}, {Tag::nhwc, channels}};
  for (const auto& layout : known) {
    if (desc == memory::desc(desc.dims(), memory::data_type::f32, layout.tag)) return layout;
  }
  throw std::logic_error("activation in a layout that no kernel reads");
}

memory::desc with_images(const memory::desc& desc, int images) {
  memory::dims dims = desc.dims();
  dims[0] = images;
  return {dims, memory::data_type::f32, layout_of(desc).tag};
}

}  // namespace dtrain::backend::cpu
