#pragma once

#include <cstdint>
#include <span>

namespace dtrain::kernels {

struct LossSum {
  double loss = 0.0;  // sum over images of log(sum exp(logits)) - logit of the label
  int correct = 0;    // images whose largest logit (the first, on ties) is the label's
};

// logits [count][classes]. With a non-empty `gradient` (same shape) it receives gradient_scale * (softmax -
// one hot).
LossSum softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels,
                              int classes, float gradient_scale, std::span<float> gradient);

// The same in double precision throughout.
LossSum softmax_cross_entropy_reference(std::span<const float> logits, std::span<const std::int32_t> labels,
                                        int classes, float gradient_scale, std::span<float> gradient);

}  // namespace dtrain::kernels
