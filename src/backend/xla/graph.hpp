#pragma once

#include <optional>
#include <vector>

#include "backend/xla/writer.hpp"
#include "model/model.hpp"

// A model's layers as StableHLO: activations are [images, height, width, channels].
namespace dtrain::backend::xla {

// What a lowering writes for.
struct Target {
  const model::Model* model = nullptr;
  int images = 0;       // that a device's batch has room for
  bool masked = false;  // fewer may be real; the program is told which
  bool bf16 = false;    // weights' copies and activations are bfloat16, sums and arithmetic fp32
  bool on_cpu = false;  // how XLA's CPU compiler does pools best
  int replicas = 1;
  std::string optimizer = "adam";
};

// The values that a pass over the layers works with.
struct Scope {
  const Target* target = nullptr;
  Writer* writer = nullptr;
  std::vector<Value> weights;     // what layers compute with, by parameter
  std::vector<Value> statistics;  // running values, by statistic
  std::optional<Value> mask;      // f32 [images]: 1 for a real image, 0 for padding; none: all are real
  std::optional<Value> real;      // f32: how many are real

  const model::Model& model() const { return *target->model; }
  Element activation() const { return target->bf16 ? Element::bf16 : Element::f32; }
  Value weight(int layer, std::string_view ending) const;  // the parameter must be there
  bool has(int layer, std::string_view ending) const;
  // Factors of a product, of one element: both fp32 where they differ. XLA's CPU compiler is slow with
  // bfloat16, and gives the same sums without.
  std::pair<Value, Value> factors(const Value& a, const Value& b) const;
};

// What forward leaves for backward, by layer.
struct Activation {
  Value output;
  std::vector<Value> kept;
};

struct ForwardPass {
  std::vector<Activation> layers;
  std::vector<Value> statistics;  // new running values
  const Value& logits() const { return layers.back().output; }
};

// `image`: [images, 32, 32, 3] of the activations' element. Without `training`, batch norms use the running
// values.
ForwardPass write_forward(Scope& scope, const Value& image, bool training);

// Gradients by parameter, f32, of the loss whose gradient to the logits is given.
std::vector<Value> write_backward(Scope& scope, const Value& image, const ForwardPass& forward,
                                  const Value& logits_gradient);

// Pools, whose two passes belong together.
Activation write_pool(Scope& scope, const Value& input, int size);
Value write_pool_gradient(Scope& scope, const Value& input, const Activation& pool, const Value& gradient,
                          int size);

}  // namespace dtrain::backend::xla
