#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/cuda/op.hpp"
#include "kernels/cuda/load_images.hpp"
#include "kernels/cuda/softmax_cross_entropy.hpp"
#include "kernels/cuda/step_block.hpp"

namespace dtrain::backend::cuda {

// A model lowered for one number of images: which ops, and where their buffers lie in an arena. Made from
// shapes alone; bind() then needs a device.
class Program {
 public:
  // Image's channels are those of the layout.
  Program(const model::Model& model, const FlatLayout& layout, int count, Element element);

  std::size_t arena_bytes() const { return plan_.bytes; }
  int count() const { return count_; }

  // Plans and tunes every op; the contents of all buffers are lost. `plans` outlives the program.
  void bind(std::byte* arena, const FlatBuffers& flat, Plans& plans, cudaStream_t stream);

  // Each enqueues. `block` and `outcome` lie on the device.
  void load(const kernels::cuda::StepBlock* block);
  void forward(bool training);
  // Of the last forward; with gradient also what backward starts from.
  void loss(const kernels::cuda::StepBlock* block, kernels::cuda::StepOutcome* outcome, bool gradient);
  // `layer_done(layer)` is called when the gradients of that model layer are enqueued, last layer first.
  void backward(bool add, const std::function<void(int)>& layer_done);

 private:
  int last_use(std::size_t index) const;
  void make_tensors(Builder& builder);
  std::unique_ptr<Op> make_op(const Builder& builder, std::size_t index);

  const model::Model* model_;
  int count_;
  Element element_;
  std::vector<FusedLayer> fused_;
  Tensor image_;
  std::vector<Tensor> tensors_;  // outputs of fused_, never resized after construction
  BufferId labels_ = no_buffer;
  BufferId loss_scratch_ = no_buffer;
  std::vector<std::unique_ptr<Op>> ops_;
  ArenaPlan plan_;

  cudaStream_t stream_ = nullptr;
  kernels::cuda::ImageTarget image_target_;
  double* loss_sums_ = nullptr;
};

}  // namespace dtrain::backend::cuda
