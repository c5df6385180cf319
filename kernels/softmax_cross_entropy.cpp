#include "kernels/softmax_cross_entropy.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain::kernels {

namespace {

template <class Real>
LossSum run(std::span<const float> logits, std::span<const std::int32_t> labels, int classes,
            float gradient_scale, std::span<float> gradient) {
  LossSum sum;
  for (std::size_t image = 0; image < labels.size(); ++image) {
    const float* row = logits.data() + image * static_cast<std::size_t>(classes);
    const float* largest = std::max_element(row, row + classes);
    const auto label = static_cast<int>(labels[image]);
    if (largest - row == label) ++sum.correct;

    Real total = 0;
    for (int c = 0; c < classes; ++c)
      total += std::exp(static_cast<Real>(row[c]) - static_cast<Real>(*largest));
    sum.loss += std::log(static_cast<double>(total)) + static_cast<double>(*largest) -
                static_cast<double>(row[label]);
    if (gradient.empty()) continue;

    float* out = gradient.data() + image * static_cast<std::size_t>(classes);
    for (int c = 0; c < classes; ++c) {
      const Real probability = std::exp(static_cast<Real>(row[c]) - static_cast<Real>(*largest)) / total;
      out[c] = static_cast<float>(static_cast<Real>(gradient_scale) *
                                  (probability - (c == label ? Real(1) : Real(0))));
    }
  }
  return sum;
}

}  // namespace

LossSum softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels,
                              int classes, float gradient_scale, std::span<float> gradient) {
  return run<float>(logits, labels, classes, gradient_scale, gradient);
}

LossSum softmax_cross_entropy_reference(std::span<const float> logits, std::span<const std::int32_t> labels,
                                        int classes, float gradient_scale, std::span<float> gradient) {
  return run<double>(logits, labels, classes, gradient_scale, gradient);
}

}  // namespace dtrain::kernels
