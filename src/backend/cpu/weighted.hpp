#pragma once

#include "backend/cpu/op.hpp"

namespace dtrain::backend::cpu {

// One trainable tensor as an op's primitives see it: in the flat buffers' layout, through reorders where a
// primitive wants another one, and through scratch where gradients add up.
class ParameterView {
 public:
  // `wanted` is the layout that forward asks for; the first program's wish is what the flat buffers get.
  ParameterView(const Builder& builder, int parameter, const dnnl::memory::desc& wanted);

  void plan_input_weights(const Builder& builder, const dnnl::memory::desc& wanted, int moment);
  void plan_gradient(const Builder& builder, const dnnl::memory::desc& wanted, int moment);
  void bind(const Bindings& bindings);

  const dnnl::memory::desc& desc() const { return entry_->desc; }
  const dnnl::memory& weights() const { return weights_; }
  const dnnl::memory& input_weights() const { return input_weights_; }
  // Copies the weights into the layout of the data gradient, if that is another one.
  void refresh_input_weights(const dnnl::stream& stream);

  // Where the weight gradient's primitive writes; `finish_gradient` brings it to the flat buffer.
  const dnnl::memory& gradient_target(bool add) const {
    return add || reorder_gradient_ ? scratch_ : gradient_;
  }
  void finish_gradient(const dnnl::stream& stream, bool add);

 private:
  const FlatLayout::Entry* entry_;
  dnnl::memory::desc input_desc_;
  dnnl::memory::desc scratch_desc_;
  BufferId input_buffer_ = no_buffer;
  BufferId scratch_buffer_ = no_buffer;
  BufferId converted_buffer_ = no_buffer;
  bool reorder_gradient_ = false;
  dnnl::memory weights_;
  dnnl::memory input_weights_;
  dnnl::memory gradient_;
  dnnl::memory scratch_;
  dnnl::memory converted_;  // the scratch gradient in the flat layout, when it has to be added
  dnnl::reorder weights_reorder_;
  dnnl::reorder gradient_reorder_;
};

// The layout a parameter has already, or `wish` for the first program.
dnnl::memory::desc parameter_desc(const Builder& builder, int parameter, const dnnl::memory::desc& wish);

// A forward pass with an optional fused ReLU and user-owned scratch.
dnnl::primitive_attr primitive_attributes(bool relu);

// The input gradient's destination: the tensor itself, or scratch that is then added to it.
class InputGradient {
 public:
  InputGradient(const Builder& builder, Tensor* input, bool accumulates, int moment);
  void bind(const Bindings& bindings);
  bool wanted() const { return input_->gradient != no_buffer; }
  const dnnl::memory& target() const { return accumulates_ ? scratch_ : input_->gradient_memory; }
  void finish(const Team& team, bool round_bf16);

 private:
  Tensor* input_;
  bool accumulates_;
  BufferId scratch_buffer_ = no_buffer;
  dnnl::memory scratch_;
};

// Memory that a primitive needs while it runs.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Builder& builder, const dnnl::memory::desc& desc, int moment)
      : desc_(desc), buffer_(builder.buffer(desc.get_size(), moment, moment)) {}
  dnnl::memory bind(const Bindings& bindings) const { return bindings.memory(desc_, buffer_); }

 private:
  dnnl::memory::desc desc_;
  BufferId buffer_ = no_buffer;
};

// Sets the output's gradient to zero where the fused ReLU gave zero.
void mask_relu(const Team& team, const Tensor& output);

void round_values(const Team& team, float* values, std::size_t count);

}  // namespace dtrain::backend::cpu
