#pragma once

#include "backend/xla/graph.hpp"

namespace dtrain::backend::xla {

// Softmax cross-entropy over the real images of a batch.
struct Loss {
  Value sum;      // f32
  Value correct;  // f32: images whose largest logit, the first on ties, is the label's
  Value softmax;  // [images, classes]
  Value one_hot;  // [images, classes]
};

// `labels`: s32 [images].
Loss write_loss(const Scope& scope, const Value& logits, const Value& labels);

// Gradient of the loss times `scale` to the logits, of their shape; zero for padding.
Value write_loss_gradient(const Scope& scope, const Loss& loss, const Value& logits, const Value& scale);

}  // namespace dtrain::backend::xla
