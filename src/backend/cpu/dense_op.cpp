#include "backend/cpu/weighted.hpp"
#include "kernels/elementwise.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;

class DenseOp final : public Op {
 public:
  DenseOp(const Builder& builder, const Place& place)
      : place_(place),
        team_(builder.team),
        round_input_gradient_(builder.round_bf16),
        round_output_(builder.round_bf16 && !builder.gives_logits(place.index)) {
    const int weight_parameter = builder.parameter(place.fused->layer, "_w");
    make_descriptors(builder, weight_parameter);
    const int now = place.index;
    const int back = builder.moments - 1 - now;
    weights_.emplace(builder, weight_parameter, forward_desc_.weights_desc());
    weights_->plan_gradient(builder, weights_desc_.diff_weights_desc(), back);
    if (has_bias()) {
      bias_.emplace(builder, builder.parameter(place.fused->layer, "_b"), bias_desc_);
      bias_->plan_gradient(builder, bias_desc_, back);
    }
    place_.output->desc = forward_desc_.dst_desc();
    forward_scratch_ = Scratch(builder, forward_desc_.scratchpad_desc(), now);
    weights_scratch_ = Scratch(builder, weights_desc_.scratchpad_desc(), back);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0], back);
    if (!input_gradient_->wanted()) return;
    weights_->plan_input_weights(builder, data_desc_.weights_desc(), back);
    data_scratch_ = Scratch(builder, data_desc_.scratchpad_desc(), back);
  }

  void bind(const Bindings& bindings) override {
    weights_->bind(bindings);
    if (bias_) bias_->bind(bindings);
    input_gradient_->bind(bindings);

    forward_ = dnnl::inner_product_forward(forward_desc_);
    forward_arguments_ = {{DNNL_ARG_SRC, place_.inputs[0]->value_memory},
                          {DNNL_ARG_WEIGHTS, weights_->weights()},
                          {DNNL_ARG_DST, place_.output->value_memory},
                          {DNNL_ARG_SCRATCHPAD, forward_scratch_.bind(bindings)}};
    if (bias_) forward_arguments_[DNNL_ARG_BIAS] = bias_->weights();

    weights_primitive_ = dnnl::inner_product_backward_weights(weights_desc_);
    for (const bool add : {false, true}) {
      Arguments& arguments = weights_arguments_[add ? 1 : 0];
      arguments = {{DNNL_ARG_SRC, place_.inputs[0]->value_memory},
                   {DNNL_ARG_DIFF_DST, place_.output->gradient_memory},
                   {DNNL_ARG_DIFF_WEIGHTS, weights_->gradient_target(add)},
                   {DNNL_ARG_SCRATCHPAD, weights_scratch_.bind(bindings)}};
      if (bias_) arguments[DNNL_ARG_DIFF_BIAS] = bias_->gradient_target(add);
    }
    if (!input_gradient_->wanted()) return;
    data_ = dnnl::inner_product_backward_data(data_desc_);
    data_arguments_ = {{DNNL_ARG_DIFF_DST, place_.output->gradient_memory},
                       {DNNL_ARG_WEIGHTS, weights_->input_weights()},
                       {DNNL_ARG_DIFF_SRC, input_gradient_->target()},
                       {DNNL_ARG_SCRATCHPAD, data_scratch_.bind(bindings)}};
  }

  void forward(const dnnl::stream& stream, bool) override {
    forward_.execute(stream, forward_arguments_);
    if (round_output_) round_values(*team_, place_.output->values(), place_.output->floats());
  }

  void backward_parameters(const dnnl::stream& stream, bool add) override {
    if (place_.fused->relu) mask_relu(*team_, *place_.output);
    weights_primitive_.execute(stream, weights_arguments_[add ? 1 : 0]);
    weights_->finish_gradient(stream, add);
    if (bias_) bias_->finish_gradient(stream, add);
  }

  void backward_inputs(const dnnl::stream& stream) override {
    if (!input_gradient_->wanted()) return;
    weights_->refresh_input_weights(stream);
    data_.execute(stream, data_arguments_);
    input_gradient_->finish(*team_, round_input_gradient_);
  }

 private:
  bool has_bias() const { return std::get<model::Dense>(place_.layer->operation).bias; }

  void make_descriptors(const Builder& builder, int weight_parameter) {
    constexpr auto f32 = memory::data_type::f32;
    const auto features = std::get<model::Dense>(place_.layer->operation).out_features;
    const memory::desc x = place_.inputs[0]->desc;
    memory::dims weight_dims = x.dims();
    weight_dims[0] = features;
    const memory::desc any_w(weight_dims, f32, memory::format_tag::any);
    const memory::desc w = parameter_desc(builder, weight_parameter, any_w);
    const memory::desc y({builder.count, features}, f32, memory::format_tag::nc);
    if (has_bias()) bias_desc_ = {{features}, f32, memory::format_tag::x};

    forward_desc_ = {{dnnl::prop_kind::forward_training, x, w, bias_desc_, y},
                     primitive_attributes(place_.fused->relu),
                     *builder.engine};
    weights_desc_ = {{x, any_w, bias_desc_, y}, primitive_attributes(false), *builder.engine, forward_desc_};
    if (place_.inputs[0]->gradient != no_buffer) {
      data_desc_ = {{x, any_w, y}, primitive_attributes(false), *builder.engine, forward_desc_};
    }
  }

  Place place_;
  const Team* team_;
  bool round_input_gradient_;
  bool round_output_;  // logits stay in full precision for the loss
  memory::desc bias_desc_;
  dnnl::inner_product_forward::primitive_desc forward_desc_;
  dnnl::inner_product_backward_weights::primitive_desc weights_desc_;
  dnnl::inner_product_backward_data::primitive_desc data_desc_;
  std::optional<ParameterView> weights_;
  std::optional<ParameterView> bias_;
  std::optional<InputGradient> input_gradient_;
  Scratch forward_scratch_;
  Scratch weights_scratch_;
  Scratch data_scratch_;
  dnnl::primitive forward_;
  dnnl::primitive weights_primitive_;
  dnnl::primitive data_;
  Arguments forward_arguments_;
  Arguments weights_arguments_[2];  // overwriting, adding
  Arguments data_arguments_;
};

}  // namespace

std::unique_ptr<Op> make_dense(const Builder& builder, const Place& place) {
  return std::make_unique<DenseOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
