#include "backend/cpu/weighted.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;
using Flags = dnnl::normalization_flags;

class BatchNormOp final : public Op {
 public:
  BatchNormOp(const Builder& builder, const Place& place)
      : place_(place),
        team_(builder.team),
        round_(builder.round_bf16),
        settings_(std::get<model::BatchNorm>(place.layer->operation)),
        channels_(place.layer->output.channels),
        samples_(static_cast<double>(builder.count) * place.layer->output.height * place.layer->output.width),
        vector_desc_({channels_}, memory::data_type::f32, memory::format_tag::x),
        gamma_(builder, builder.parameter(place.fused->layer, "_gamma"), vector_desc_),
        beta_(builder, builder.parameter(place.fused->layer, "_beta"), vector_desc_) {
    const memory::desc& x = place.inputs[0]->desc;
    place.output->desc = x;
    Flags flags = Flags::use_scale | Flags::use_shift;
    if (place.fused->relu) flags = flags | Flags::fuse_norm_relu;
    const dnnl::primitive_attr attributes = primitive_attributes(false);
    training_ = {
        {dnnl::prop_kind::forward_training, x, settings_.epsilon, flags}, attributes, *builder.engine};
    inference_ = {{dnnl::prop_kind::forward_inference, x, settings_.epsilon, flags | Flags::use_global_stats},
                  attributes,
                  *builder.engine};
    backward_ = {
        {dnnl::prop_kind::backward, x, x, settings_.epsilon, flags}, attributes, *builder.engine, training_};

    const int now = place.index;
    const int back = builder.moments - 1 - now;
    const std::size_t vector_bytes = vector_desc_.get_size();
    mean_buffer_ = builder.buffer(vector_bytes, now, back);
    variance_buffer_ = builder.buffer(vector_bytes, now, back);
    workspace_buffer_ = builder.buffer(training_.workspace_desc().get_size(), now, back);
    scratch_buffers_ = {builder.buffer(training_.scratchpad_desc().get_size(), now, now),
                        builder.buffer(inference_.scratchpad_desc().get_size(), now, now),
                        builder.buffer(backward_.scratchpad_desc().get_size(), back, back)};
    gamma_.plan_gradient(builder, vector_desc_, back);
    beta_.plan_gradient(builder, vector_desc_, back);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0], back);
    for (const auto& statistic : builder.model->statistics) {
      if (statistic.layer != place.fused->layer) continue;
      (statistic.name.ends_with("_mean") ? running_mean_offset_ : running_variance_offset_) =
          statistic.offset;
    }
  }

  void bind(const Bindings& bindings) override {
    gamma_.bind(bindings);
    beta_.bind(bindings);
    input_gradient_->bind(bindings);
    running_mean_ = bindings.statistics + running_mean_offset_;
    running_variance_ = bindings.statistics + running_variance_offset_;
    mean_ = bindings.memory(vector_desc_, mean_buffer_);
    variance_ = bindings.memory(vector_desc_, variance_buffer_);
    const memory workspace = bindings.memory(training_.workspace_desc(), workspace_buffer_);

    forward_ = dnnl::batch_normalization_forward(training_);
    const Arguments common = {{DNNL_ARG_SRC, place_.inputs[0]->value_memory},
                              {DNNL_ARG_DST, place_.output->value_memory},
                              {DNNL_ARG_SCALE, gamma_.weights()},
                              {DNNL_ARG_SHIFT, beta_.weights()}};
    forward_arguments_ = common;
    forward_arguments_[DNNL_ARG_MEAN] = mean_;
    forward_arguments_[DNNL_ARG_VARIANCE] = variance_;
    forward_arguments_[DNNL_ARG_WORKSPACE] = workspace;
    forward_arguments_[DNNL_ARG_SCRATCHPAD] =
        bindings.memory(training_.scratchpad_desc(), scratch_buffers_[0]);

    evaluate_ = dnnl::batch_normalization_forward(inference_);
    evaluate_arguments_ = common;
    evaluate_arguments_[DNNL_ARG_MEAN] = memory(vector_desc_, *bindings.engine, running_mean_);
    evaluate_arguments_[DNNL_ARG_VARIANCE] = memory(vector_desc_, *bindings.engine, running_variance_);
    evaluate_arguments_[DNNL_ARG_SCRATCHPAD] =
        bindings.memory(inference_.scratchpad_desc(), scratch_buffers_[1]);

    backward_primitive_ = dnnl::batch_normalization_backward(backward_);
    for (const bool add : {false, true}) {
      backward_arguments_[add ? 1 : 0] = {
          {DNNL_ARG_SRC, place_.inputs[0]->value_memory},
          {DNNL_ARG_MEAN, mean_},
          {DNNL_ARG_VARIANCE, variance_},
          {DNNL_ARG_DIFF_DST, place_.output->gradient_memory},
          {DNNL_ARG_SCALE, gamma_.weights()},
          {DNNL_ARG_SHIFT, beta_.weights()},
          {DNNL_ARG_WORKSPACE, workspace},
          {DNNL_ARG_DIFF_SRC, input_gradient_->target()},
          {DNNL_ARG_DIFF_SCALE, gamma_.gradient_target(add)},
          {DNNL_ARG_DIFF_SHIFT, beta_.gradient_target(add)},
          {DNNL_ARG_SCRATCHPAD, bindings.memory(backward_.scratchpad_desc(), scratch_buffers_[2])}};
    }
  }

  void forward(const dnnl::stream& stream, bool training) override {
    if (training) {
      forward_.execute(stream, forward_arguments_);
      update_running_statistics();
    } else {
      evaluate_.execute(stream, evaluate_arguments_);
    }
    if (round_) round_values(*team_, place_.output->values(), place_.output->floats());
  }

  // One primitive gives both gradients, so the input's comes early.
  void backward_parameters(const dnnl::stream& stream, bool add) override {
    backward_primitive_.execute(stream, backward_arguments_[add ? 1 : 0]);
    gamma_.finish_gradient(stream, add);
    beta_.finish_gradient(stream, add);
  }

  void backward_inputs(const dnnl::stream&) override { input_gradient_->finish(*team_, round_); }

 private:
  void update_running_statistics() {
    const auto* mean = static_cast<const float*>(mean_.get_data_handle());
    const auto* variance = static_cast<const float*>(variance_.get_data_handle());
    const float unbias = static_cast<float>(samples_ > 1.0 ? samples_ / (samples_ - 1.0) : 1.0);
    for (int c = 0; c < channels_; ++c) {
      running_mean_[c] += settings_.momentum * (mean[c] - running_mean_[c]);
      running_variance_[c] += settings_.momentum * (variance[c] * unbias - running_variance_[c]);
    }
  }

  Place place_;
  const Team* team_;
  bool round_;
  model::BatchNorm settings_;
  int channels_;
  double samples_;
  memory::desc vector_desc_;
  ParameterView gamma_;
  ParameterView beta_;
  std::optional<InputGradient> input_gradient_;
  dnnl::batch_normalization_forward::primitive_desc training_;
  dnnl::batch_normalization_forward::primitive_desc inference_;
  dnnl::batch_normalization_backward::primitive_desc backward_;
  BufferId mean_buffer_ = no_buffer;
  BufferId variance_buffer_ = no_buffer;
  BufferId workspace_buffer_ = no_buffer;
  std::array<BufferId, 3> scratch_buffers_{};
  std::size_t running_mean_offset_ = 0;
  std::size_t running_variance_offset_ = 0;
  float* running_mean_ = nullptr;
  float* running_variance_ = nullptr;
  memory mean_;
  memory variance_;
  dnnl::primitive forward_;
  dnnl::primitive evaluate_;
  dnnl::primitive backward_primitive_;
  Arguments forward_arguments_;
  Arguments evaluate_arguments_;
  Arguments backward_arguments_[2];  // overwriting, adding
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const Builder& builder, const Place& place) {
  return std::make_unique<BatchNormOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
