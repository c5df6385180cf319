#include "backend/cpu/weighted.hpp"
#include "kernels/elementwise.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc any(const memory::dims& dims) { return {dims, memory::data_type::f32, Tag::any}; }

// Convolution and dense layer are the same to everything but the primitives they are made of: inputs, weights
// with an optional bias, an optional ReLU.
template <class Kind>
class WeightedOp final : public Op {
 public:
  WeightedOp(const Builder& builder, const Place& place)
      : place_(place),
        team_(builder.team),
        round_input_gradient_(builder.round_bf16),
        round_output_(builder.round_bf16 && !builder.gives_logits(place.index)),
        mask_here_(place.fused->relu && !place.fused->relu_masked_by_pool),
        kind_(builder, place),
        bias_parameter_(builder.parameter(place.fused->layer, "_b")),
        weights_(builder, builder.parameter(place.fused->layer, "_w"), kind_.forward.weights_desc()) {
    const int now = place.index;
    const int back = builder.moments - 1 - now;
    if (bias_parameter_ >= 0) {
      bias_.emplace(builder, bias_parameter_, kind_.bias);
      bias_->plan_gradient(builder, kind_.bias, back);
    }
    place.output->desc = kind_.forward.dst_desc();
    weights_.plan_gradient(builder, kind_.backward_weights.diff_weights_desc(), back);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0], back);
    if (input_gradient_->wanted()) {
      weights_.plan_input_weights(builder, kind_.backward_data.weights_desc(), back);
    }
    const auto scratch = [&](const auto& descriptor, int moment) {
      return Scratch{descriptor.scratchpad_desc(),
                     builder.buffer(descriptor.scratchpad_desc().get_size(), moment, moment)};
    };
    forward_scratch_ = scratch(kind_.forward, now);
    weights_scratch_ = scratch(kind_.backward_weights, back);
    if (input_gradient_->wanted()) data_scratch_ = scratch(kind_.backward_data, back);
  }

  void bind(const Bindings& bindings) override {
    weights_.bind(bindings);
    if (bias_) bias_->bind(bindings);
    input_gradient_->bind(bindings);

    forward_ = typename Kind::Forward(kind_.forward);
    forward_arguments_ = {{DNNL_ARG_SRC, place_.inputs[0]->value_memory},
                          {DNNL_ARG_WEIGHTS, weights_.weights()},
                          {DNNL_ARG_DST, place_.output->value_memory},
                          {DNNL_ARG_SCRATCHPAD, forward_scratch_.bind(bindings)}};
    if (bias_) forward_arguments_[DNNL_ARG_BIAS] = bias_->weights();

    backward_weights_ = typename Kind::BackwardWeights(kind_.backward_weights);
    for (const bool add : {false, true}) {
      Arguments& arguments = weights_arguments_[add ? 1 : 0];
      arguments = {{DNNL_ARG_SRC, place_.inputs[0]->value_memory},
                   {DNNL_ARG_DIFF_DST, place_.output->gradient_memory},
                   {DNNL_ARG_DIFF_WEIGHTS, weights_.gradient_target(add)},
                   {DNNL_ARG_SCRATCHPAD, weights_scratch_.bind(bindings)}};
      if (bias_) arguments[DNNL_ARG_DIFF_BIAS] = bias_->gradient_target(add);
    }
    if (!input_gradient_->wanted()) return;
    backward_data_ = typename Kind::BackwardData(kind_.backward_data);
    data_arguments_ = {{DNNL_ARG_DIFF_DST, place_.output->gradient_memory},
                       {DNNL_ARG_WEIGHTS, weights_.input_weights()},
                       {DNNL_ARG_DIFF_SRC, input_gradient_->target()},
                       {DNNL_ARG_SCRATCHPAD, data_scratch_.bind(bindings)}};
  }

  void forward(const dnnl::stream& stream, bool) override {
    forward_.execute(stream, forward_arguments_);
    if (round_output_) round_values(*team_, place_.output->values(), place_.output->floats());
  }

  void backward_parameters(const dnnl::stream& stream, bool add) override {
    if (mask_here_) {
      const std::size_t count = place_.output->floats();
      team_->split(count, 4096, [&](std::size_t begin, std::size_t end) {
        kernels::relu_backward({place_.output->values() + begin, end - begin},
                               {place_.output->gradients() + begin, end - begin});
      });
    }
    backward_weights_.execute(stream, weights_arguments_[add ? 1 : 0]);
    weights_.finish_gradient(stream, add);
    if (bias_) bias_->finish_gradient(stream, add);
  }

  void backward_inputs(const dnnl::stream& stream) override {
    if (!input_gradient_->wanted()) return;
    weights_.refresh_input_weights(stream);
    backward_data_.execute(stream, data_arguments_);
    input_gradient_->finish(*team_, round_input_gradient_);
  }

 private:
  struct Scratch {
    memory::desc desc;
    BufferId buffer = no_buffer;
    memory bind(const Bindings& bindings) const { return bindings.memory(desc, buffer); }
  };

  Place place_;
  const Team* team_;
  bool round_input_gradient_;
  bool round_output_;  // logits stay in full precision for the loss
  bool mask_here_;
  Kind kind_;
  int bias_parameter_;
  ParameterView weights_;
  std::optional<ParameterView> bias_;
  std::optional<InputGradient> input_gradient_;
  Scratch forward_scratch_;
  Scratch weights_scratch_;
  Scratch data_scratch_;
  dnnl::primitive forward_;
  dnnl::primitive backward_weights_;
  dnnl::primitive backward_data_;
  Arguments forward_arguments_;
  Arguments weights_arguments_[2];  // overwriting, adding
  Arguments data_arguments_;
};

struct ConvolutionKind {
  using Forward = dnnl::convolution_forward;
  using BackwardWeights = dnnl::convolution_backward_weights;
  using BackwardData = dnnl::convolution_backward_data;

  ConvolutionKind(const Builder& builder, const Place& place) {
    const auto& c = std::get<model::Convolution>(place.layer->operation);
    const model::Shape& in = place.layer->input_shapes[0];
    const model::Shape& out = place.layer->output;
    const memory::desc x = place.inputs[0]->desc;
    const memory::desc w = parameter_desc(builder, builder.parameter(place.fused->layer, "_w"),
                                          any({c.out_channels, in.channels, c.kernel, c.kernel}));
    const memory::desc y = any({builder.count, out.channels, out.height, out.width});
    const memory::dims strides{1, 1};
    const memory::dims padding{c.padding, c.padding};
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    if (c.bias) bias = {{c.out_channels}, memory::data_type::f32, Tag::x};

    forward = {{dnnl::prop_kind::forward_training, direct, x, w, bias, y, strides, padding, padding},
               fused_attributes(place.fused->relu),
               *builder.engine};
    const memory::desc any_w = any(w.dims());
    const memory::desc dy = forward.dst_desc();
    backward_weights = {{direct, x, any_w, bias, dy, strides, padding, padding},
                        fused_attributes(false),
                        *builder.engine,
                        forward};
    if (place.inputs[0]->gradient != no_buffer) {
      backward_data = {{direct, x, any_w, dy, strides, padding, padding},
                       fused_attributes(false),
                       *builder.engine,
                       forward};
    }
  }

  memory::desc bias;
  Forward::primitive_desc forward;
  BackwardWeights::primitive_desc backward_weights;
  BackwardData::primitive_desc backward_data;
};

struct DenseKind {
  using Forward = dnnl::inner_product_forward;
  using BackwardWeights = dnnl::inner_product_backward_weights;
  using BackwardData = dnnl::inner_product_backward_data;

  DenseKind(const Builder& builder, const Place& place) {
    const auto& d = std::get<model::Dense>(place.layer->operation);
    const memory::desc x = place.inputs[0]->desc;
    memory::dims weight_dims = x.dims();
    weight_dims[0] = d.out_features;
    const memory::desc w =
        parameter_desc(builder, builder.parameter(place.fused->layer, "_w"), any(weight_dims));
    const memory::desc y({builder.count, d.out_features}, memory::data_type::f32, Tag::nc);
    if (d.bias) bias = {{d.out_features}, memory::data_type::f32, Tag::x};

    forward = {{dnnl::prop_kind::forward_training, x, w, bias, y},
               fused_attributes(place.fused->relu),
               *builder.engine};
    const memory::desc any_w = any(weight_dims);
    backward_weights = {{x, any_w, bias, y}, fused_attributes(false), *builder.engine, forward};
    if (place.inputs[0]->gradient != no_buffer) {
      backward_data = {{x, any_w, y}, fused_attributes(false), *builder.engine, forward};
    }
  }

  memory::desc bias;
  Forward::primitive_desc forward;
  BackwardWeights::primitive_desc backward_weights;
  BackwardData::primitive_desc backward_data;
};

}  // namespace

std::unique_ptr<Op> make_convolution(const Builder& builder, const Place& place) {
  return std::make_unique<WeightedOp<ConvolutionKind>>(builder, place);
}

std::unique_ptr<Op> make_dense(const Builder& builder, const Place& place) {
  return std::make_unique<WeightedOp<DenseKind>>(builder, place);
}

}  // namespace dtrain::backend::cpu
