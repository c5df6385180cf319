#pragma once

#include "model/model.hpp"
#include "oneapi/dnnl/dnnl.hpp"

namespace dtrain::backend::cpu {

// The activation layouts that our own kernels read: oneDNN's name, and how many channels lie together.
struct ActivationLayout {
  dnnl::memory::format_tag tag = dnnl::memory::format_tag::undef;
  int inner = 0;  // 8 or 16 in blocked layouts, 1 in NCHW, all channels in NHWC
};

// std::logic_error for a layout that no kernel reads.
ActivationLayout layout_of(const dnnl::memory::desc& desc);

// The layout, of those above, in which a convolution likes to read images: a function of the shape alone.
dnnl::memory::desc convolution_input(const dnnl::engine& engine, int images, const model::Shape& shape);

// The same layout for another number of images.
dnnl::memory::desc with_images(const dnnl::memory::desc& desc, int images);

}  // namespace dtrain::backend::cpu
