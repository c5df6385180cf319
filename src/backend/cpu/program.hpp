#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/op.hpp"
#include "backend/replica.hpp"
#include "base/aligned_buffer.hpp"

namespace dtrain::backend::cpu {

// A model lowered for one number of images: primitives, and where their buffers lie in an arena.
class Program {
 public:
  // Decides shapes and layouts; completes `layout` if it is the first. Touches no large memory. `link` is for
  // models with collective layers, and outlives the program.
  Program(const model::Model& model, const dnnl::engine& engine, const Team& team, int count, bool round_bf16,
          FlatLayout& layout, bool input_gradient = false, const CollectiveLink* link = nullptr);

  std::size_t arena_bytes() const { return plan_.bytes; }
  void bind(const dnnl::engine& engine, std::byte* arena, float* weights, float* gradients,
            float* statistics);

  void feed(const float* images);
  // With a source, weights are asked for before an op computes with them.
  void forward(const dnnl::stream& stream, bool training, WeightSource* source = nullptr);
  // Loss of the last forward; with a gradient scale also what backward starts from.
  BatchResult loss(std::span<const std::int32_t> labels, float gradient_scale, bool with_gradient);
  // `layer_done(layer)` is called when the gradients of that model layer are final, last layer first.
  void backward(const dnnl::stream& stream, bool add, const std::function<void(int)>& layer_done,
                WeightSource* source = nullptr);

  // Of a stage of a pipeline: what it hands on, what comes back for it, and what it hands back.
  std::span<const float> output() const { return {tensors_.back().values(), tensors_.back().floats()}; }
  std::span<float> output_gradient() const { return {tensors_.back().gradients(), tensors_.back().floats()}; }
  std::span<const float> input_gradient() const { return {image_.gradients(), image_.floats()}; }

  // In forward order, for whoever runs them one by one.
  const std::vector<std::unique_ptr<Op>>& ops() const { return ops_; }
  const std::vector<FusedLayer>& fused() const { return fused_; }

 private:
  void plan_buffers(const Builder& builder, std::size_t index);
  int last_use(std::size_t index) const;
  std::unique_ptr<Op> make_op(const Builder& builder, std::size_t index);

  const model::Model* model_;
  int count_;
  std::vector<FusedLayer> fused_;
  Tensor image_;
  std::vector<Tensor> tensors_;  // outputs of fused_, never resized after construction
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Range> parameters_;  // of the ops in the flat buffers, padding included
  ArenaPlan plan_;
};

}  // namespace dtrain::backend::cpu
