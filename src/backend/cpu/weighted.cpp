#include "backend/cpu/weighted.hpp"

#include "kernels/elementwise.hpp"

namespace dtrain::backend::cpu {

namespace {

constexpr std::size_t alignment_floats = 16;

std::span<float> floats(const dnnl::memory& memory) {
  return {static_cast<float*>(memory.get_data_handle()), memory.get_desc().get_size() / sizeof(float)};
}

}  // namespace

int Builder::parameter(int layer, const std::string& suffix) const {
  for (std::size_t p = 0; p < model->parameters.size(); ++p) {
    if (model->parameters[p].layer == layer && model->parameters[p].name.ends_with(suffix))
      return static_cast<int>(p);
  }
  return -1;
}

dnnl::memory::desc parameter_desc(const Builder& builder, int parameter, const dnnl::memory::desc& wish) {
  return builder.layout->complete ? builder.layout->entries[static_cast<std::size_t>(parameter)].desc : wish;
}

dnnl::primitive_attr primitive_attributes(bool relu) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops operations;
    operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attributes.set_post_ops(operations);
  }
  return attributes;
}

ParameterView::ParameterView(const Builder& builder, int parameter, const dnnl::memory::desc& wanted) {
  FlatLayout& layout = *builder.layout;
  auto& entry = layout.entries[static_cast<std::size_t>(parameter)];
  if (!layout.complete) {
    entry.desc = wanted;
    entry.size = wanted.get_size() / sizeof(float);
    entry.offset = layout.size;
    layout.size += (entry.size + alignment_floats - 1) / alignment_floats * alignment_floats;
  }
  entry_ = &entry;
}

void ParameterView::plan_input_weights(const Builder& builder, const dnnl::memory::desc& wanted, int moment) {
  input_desc_ = wanted;
  if (wanted != entry_->desc) input_buffer_ = builder.buffer(wanted.get_size(), moment, moment);
}

void ParameterView::plan_gradient(const Builder& builder, const dnnl::memory::desc& wanted, int moment) {
  scratch_desc_ = wanted;
  reorder_gradient_ = wanted != entry_->desc;
  scratch_buffer_ = builder.buffer(wanted.get_size(), moment, moment);
  if (reorder_gradient_) converted_buffer_ = builder.buffer(entry_->desc.get_size(), moment, moment);
}

void ParameterView::bind(const Bindings& bindings) {
  weights_ = {entry_->desc, *bindings.engine, bindings.weights + entry_->offset};
  gradient_ = {entry_->desc, *bindings.engine, bindings.gradients + entry_->offset};
  input_weights_ = weights_;
  if (input_buffer_ != no_buffer) {
    input_weights_ = bindings.memory(input_desc_, input_buffer_);
    weights_reorder_ = dnnl::reorder(weights_, input_weights_);
  }
  if (scratch_buffer_ != no_buffer) scratch_ = bindings.memory(scratch_desc_, scratch_buffer_);
  if (reorder_gradient_) {
    converted_ = bindings.memory(entry_->desc, converted_buffer_);
    gradient_reorder_ = dnnl::reorder(scratch_, gradient_);
  }
}

void ParameterView::refresh_input_weights(const dnnl::stream& stream) {
  if (input_buffer_ != no_buffer) {
    dnnl::stream same = stream;
    weights_reorder_.execute(same, weights_, input_weights_);
  }
}

void ParameterView::finish_gradient(const dnnl::stream& stream, bool add) {
  dnnl::stream same = stream;
  if (reorder_gradient_) {
    const dnnl::memory& target = add ? converted_ : gradient_;
    dnnl::memory source = scratch_;
    dnnl::memory destination = target;
    gradient_reorder_.execute(same, source, destination);
  }
  if (add) kernels::accumulate(floats(reorder_gradient_ ? converted_ : scratch_), floats(gradient_));
}

InputGradient::InputGradient(const Builder& builder, Tensor* input, bool accumulates, int moment)
    : input_(input), accumulates_(accumulates) {
  if (wanted() && accumulates) scratch_buffer_ = builder.buffer(input->desc.get_size(), moment, moment);
}

void InputGradient::bind(const Bindings& bindings) {
  if (scratch_buffer_ != no_buffer) scratch_ = bindings.memory(input_->desc, scratch_buffer_);
}

void InputGradient::finish(const Team& team, bool round_bf16) {
  if (accumulates_) {
    const std::span<const float> from = floats(scratch_);
    const std::span<float> into = floats(input_->gradient_memory);
    team.split(from.size(), 4096, [&](std::size_t begin, std::size_t end) {
      kernels::accumulate(from.subspan(begin, end - begin), into.subspan(begin, end - begin));
    });
  }
  if (round_bf16) round_values(team, input_->gradients(), input_->floats());
}

void mask_relu(const Team& team, const Tensor& output) {
  team.split(output.floats(), 4096, [&](std::size_t begin, std::size_t end) {
    kernels::relu_backward({output.values() + begin, end - begin}, {output.gradients() + begin, end - begin});
  });
}

void round_values(const Team& team, float* values, std::size_t count) {
  team.split(count, 4096, [&](std::size_t begin, std::size_t end) {
    const std::span<float> part(values + begin, end - begin);
    kernels::round_to_bf16(part, part);
  });
}

}  // namespace dtrain::backend::cpu
