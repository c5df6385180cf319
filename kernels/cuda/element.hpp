#pragma once

#include <cstddef>

namespace dtrain::kernels::cuda {

// What an activation or a weight is stored as on the device. Arithmetic is fp32 everywhere.
enum class Element { f32, bf16, f16 };

constexpr std::size_t size_of(Element element) { return element == Element::f32 ? 4 : 2; }

}  // namespace dtrain::kernels::cuda
