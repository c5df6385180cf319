#include "backend/cpu/layouts.hpp"
#include "backend/cpu/weighted.hpp"
#include "kernels/convolution_weights.hpp"
#include "kernels/max_pool.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// With a pool fused behind it, a convolution's own output is only needed until it is pooled: images are then
// taken a few at a time, so that it stays in the second-level cache and never exists for the whole batch.
constexpr std::size_t pass_bytes_per_core = 256 * 1024;

int images_per_pass(int count, std::size_t image_bytes, std::size_t limit) {
  for (int images = count; images > 1; --images) {
    if (count % images == 0 && static_cast<std::size_t>(images) * image_bytes <= limit) return images;
  }
  return 1;
}

// Convolution with bias, and what is fused behind it: a ReLU, or a ReLU and a max pool.
class ConvolutionOp final : public Op {
 public:
  ConvolutionOp(const Builder& builder, const Place& place)
      : place_(place),
        settings_(std::get<model::Convolution>(place.layer->operation)),
        team_(builder.team),
        round_bf16_(builder.round_bf16),
        pooled_(place.fused->pool_layer >= 0) {
    const int now = place.index;
    const int back = builder.moments - 1 - now;
    const model::Shape& out = place.layer->output;
    images_ = pooled_ ? images_per_pass(builder.count, out.elements() * sizeof(float),
                                        pass_bytes_per_core * static_cast<std::size_t>(team_->threads()))
                      : builder.count;
    passes_ = builder.count / images_;

    const int weight_parameter = builder.parameter(place.fused->layer, "_w");
    make_descriptors(builder, weight_parameter);
    weights_.emplace(builder, weight_parameter, forward_desc_.weights_desc());
    if (settings_.bias) bias_.emplace(builder, builder.parameter(place.fused->layer, "_b"), bias_desc_);
    choose_weights_gradient(builder, back);

    place_.output->desc = with_images(forward_desc_.dst_desc(), builder.count);
    if (pooled_) plan_pool(builder, now, back);
    forward_scratch_ = Scratch(builder, forward_desc_.scratchpad_desc(), now);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0], back);
    if (!input_gradient_->wanted()) return;
    weights_->plan_input_weights(builder, data_desc_.weights_desc(), back);
    data_scratch_ = Scratch(builder, data_desc_.scratchpad_desc(), back);
  }

  void bind(const Bindings& bindings) override {
    weights_->bind(bindings);
    if (bias_) bias_->bind(bindings);
    input_gradient_->bind(bindings);
    x_ = {x_desc_, *bindings.engine, nullptr};
    y_ = {forward_desc_.dst_desc(), *bindings.engine, nullptr};
    dy_ = {forward_desc_.dst_desc(), *bindings.engine, nullptr};
    dx_ = {x_desc_, *bindings.engine, nullptr};
    if (pooled_) {
      pass_output_ = static_cast<float*>(bindings.at(pass_output_buffer_));
      pass_gradient_ = static_cast<float*>(bindings.at(pass_gradient_buffer_));
      winner_ = static_cast<std::uint8_t*>(bindings.at(winner_buffer_));
    }

    forward_ = dnnl::convolution_forward(forward_desc_);
    forward_arguments_ = {{DNNL_ARG_SRC, x_},
                          {DNNL_ARG_WEIGHTS, weights_->weights()},
                          {DNNL_ARG_DST, y_},
                          {DNNL_ARG_SCRATCHPAD, forward_scratch_.bind(bindings)}};
    if (bias_) forward_arguments_[DNNL_ARG_BIAS] = bias_->weights();
    if (!own_) bind_library_weights_gradient(bindings);
    if (!input_gradient_->wanted()) return;
    data_ = dnnl::convolution_backward_data(data_desc_);
    data_arguments_ = {{DNNL_ARG_DIFF_DST, dy_},
                       {DNNL_ARG_WEIGHTS, weights_->input_weights()},
                       {DNNL_ARG_DIFF_SRC, dx_},
                       {DNNL_ARG_SCRATCHPAD, data_scratch_.bind(bindings)}};
  }

  void forward(const dnnl::stream& stream, bool) override {
    for (int pass = 0; pass < passes_; ++pass) {
      x_.set_data_handle(place_.inputs[0]->values() + pass * floats(x_desc_));
      y_.set_data_handle(pooled_ ? pass_output_ : place_.output->values());
      forward_.execute(stream, forward_arguments_);
      auto* y = static_cast<float*>(y_.get_data_handle());
      if (round_bf16_) round_values(*team_, y, floats(y_.get_desc()));
      if (pooled_) pool_forward(pass, y);
    }
  }

  void backward_parameters(const dnnl::stream& stream, bool add) override {
    if (place_.fused->relu && !pooled_) mask_relu(*team_, *place_.output);
    if (pooled_ && input_gradient_->wanted()) weights_->refresh_input_weights(stream);
    for (int pass = 0; pass < passes_; ++pass) {
      x_.set_data_handle(place_.inputs[0]->values() + pass * floats(x_desc_));
      if (pooled_) pool_backward(pass);
      dy_.set_data_handle(pooled_ ? pass_gradient_ : place_.output->gradients());
      weights_gradient(stream, add || pass > 0);
      // The output's gradient is there for this pass only, so the input's has to come now.
      if (pooled_ && input_gradient_->wanted()) data_gradient(stream, pass);
    }
  }

  void backward_inputs(const dnnl::stream& stream) override {
    if (!input_gradient_->wanted()) return;
    if (!pooled_) {
      weights_->refresh_input_weights(stream);
      data_gradient(stream, 0);
    }
    input_gradient_->finish(*team_, round_bf16_);
  }

 private:
  static std::size_t floats(const memory::desc& desc) { return desc.get_size() / sizeof(float); }

  void make_descriptors(const Builder& builder, int weight_parameter) {
    constexpr auto f32 = memory::data_type::f32;
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    const model::Shape& in = place_.layer->input_shapes[0];
    const model::Shape& out = place_.layer->output;
    const memory::dims strides{1, 1};
    const memory::dims padding{settings_.padding, settings_.padding};
    const memory::desc any_w({settings_.out_channels, in.channels, settings_.kernel, settings_.kernel}, f32,
                             Tag::any);
    const memory::desc w = parameter_desc(builder, weight_parameter, any_w);
    const memory::desc any_y({images_, out.channels, out.height, out.width}, f32, Tag::any);
    x_desc_ = with_images(place_.inputs[0]->desc, images_);
    if (settings_.bias) bias_desc_ = {{settings_.out_channels}, f32, Tag::x};

    forward_desc_ = {
        {dnnl::prop_kind::forward_training, direct, x_desc_, w, bias_desc_, any_y, strides, padding, padding},
        primitive_attributes(place_.fused->relu),
        *builder.engine};
    const memory::desc y = forward_desc_.dst_desc();
    weights_desc_ = {{direct, x_desc_, any_w, bias_desc_, y, strides, padding, padding},
                     primitive_attributes(false),
                     *builder.engine,
                     forward_desc_};
    if (place_.inputs[0]->gradient != no_buffer) {
      data_desc_ = {{direct, x_desc_, any_w, y, strides, padding, padding},
                    primitive_attributes(false),
                    *builder.engine,
                    forward_desc_};
    }
  }

  // Our own kernel where it serves these layouts, else the library's.
  void choose_weights_gradient(const Builder& builder, int back) {
    const model::Shape& in = place_.layer->input_shapes[0];
    const int block = layout_of(forward_desc_.dst_desc()).inner;
    const bool plain_input = layout_of(x_desc_).inner == 1 && in.channels > 1;
    const kernels::WeightsGradientShape shape{.images = images_,
                                              .in_channels = in.channels,
                                              .in_height = in.height,
                                              .in_width = in.width,
                                              .out_channels = settings_.out_channels,
                                              .padding = settings_.padding,
                                              .block = block,
                                              .plain_input = plain_input};
    const bool same_blocks = plain_input || layout_of(x_desc_).inner == block;
    const Tag tag = block == 16 ? (plain_input ? Tag::Ohwi16o : Tag::OIhw16i16o)
                                : (plain_input ? Tag::Ohwi8o : Tag::OIhw8i8o);
    const memory::desc& flat = weights_->desc();
    if (settings_.kernel == 3 && same_blocks && kernels::weights_gradient_supported(shape) &&
        flat == memory::desc(flat.dims(), memory::data_type::f32, tag)) {
      own_ = shape;
      return;
    }
    weights_->plan_gradient(builder, weights_desc_.diff_weights_desc(), back);
    if (bias_) bias_->plan_gradient(builder, bias_desc_, back);
    weights_scratch_ = Scratch(builder, weights_desc_.scratchpad_desc(), back);
  }

  void plan_pool(const Builder& builder, int now, int back) {
    const model::Layer& pool = builder.model->layers[static_cast<std::size_t>(place_.fused->pool_layer)];
    const model::Shape& in = place_.layer->output;
    const memory::desc pass_desc = forward_desc_.dst_desc();
    const ActivationLayout layout = layout_of(pass_desc);
    pool_.size = std::get<model::MaxPool>(pool.operation).size;
    pool_.height = in.height;
    pool_.width = in.width;
    pool_.inner = layout.inner;
    pool_.outer = floats(pass_desc) / (static_cast<std::size_t>(in.height) * in.width * layout.inner);
    place_.output->desc = {{builder.count, pool.output.channels, pool.output.height, pool.output.width},
                           memory::data_type::f32,
                           layout.tag};
    pass_output_buffer_ = builder.buffer(pass_desc.get_size(), now, now);
    pass_gradient_buffer_ = builder.buffer(pass_desc.get_size(), back, back);
    winner_buffer_ = builder.buffer(floats(place_.output->desc), now, back);
  }

  void bind_library_weights_gradient(const Bindings& bindings) {
    weights_primitive_ = dnnl::convolution_backward_weights(weights_desc_);
    for (const bool add : {false, true}) {
      Arguments& arguments = weights_arguments_[add ? 1 : 0];
      arguments = {{DNNL_ARG_SRC, x_},
                   {DNNL_ARG_DIFF_DST, dy_},
                   {DNNL_ARG_DIFF_WEIGHTS, weights_->gradient_target(add)},
                   {DNNL_ARG_SCRATCHPAD, weights_scratch_.bind(bindings)}};
      if (bias_) arguments[DNNL_ARG_DIFF_BIAS] = bias_->gradient_target(add);
    }
  }

  void weights_gradient(const dnnl::stream& stream, bool add) {
    if (own_) {
      const auto* x = static_cast<const float*>(x_.get_data_handle());
      const auto* dy = static_cast<const float*>(dy_.get_data_handle());
      auto* dw = static_cast<float*>(weights_->gradient_target(false).get_data_handle());
      std::span<float> db;
      if (bias_) {
        db = {static_cast<float*>(bias_->gradient_target(false).get_data_handle()),
              static_cast<std::size_t>(settings_.out_channels)};
      }
      const auto blocks = static_cast<std::size_t>(own_->out_channels / own_->block);
      team_->split(blocks, 1, [&](std::size_t begin, std::size_t end) {
        kernels::weights_gradient(*own_, x, dy, dw, db, add, static_cast<int>(begin), static_cast<int>(end));
      });
      return;
    }
    weights_primitive_.execute(stream, weights_arguments_[add ? 1 : 0]);
    weights_->finish_gradient(stream, add);
    if (bias_) bias_->finish_gradient(stream, add);
  }

  void data_gradient(const dnnl::stream& stream, int pass) {
    dy_.set_data_handle(pooled_ ? pass_gradient_ : place_.output->gradients());
    dx_.set_data_handle(static_cast<float*>(input_gradient_->target().get_data_handle()) +
                        pass * floats(x_desc_));
    data_.execute(stream, data_arguments_);
  }

  std::size_t pooled_floats_per_pass() const {
    return pool_.outer * static_cast<std::size_t>(pool_.out_height()) * pool_.out_width() * pool_.inner;
  }

  // Calls work(shape, first plane's offset in the input, in the output) for parts of one pass.
  template <class Work>
  void split_pool(const Work& work) {
    const std::size_t in_plane = static_cast<std::size_t>(pool_.height) * pool_.width * pool_.inner;
    const std::size_t out_plane =
        static_cast<std::size_t>(pool_.out_height()) * pool_.out_width() * pool_.inner;
    team_->split(pool_.outer, 1, [&](std::size_t begin, std::size_t end) {
      kernels::PoolShape part = pool_;
      part.outer = end - begin;
      work(part, begin * in_plane, begin * out_plane);
    });
  }

  void pool_forward(int pass, const float* y) {
    const std::size_t offset = pass * pooled_floats_per_pass();
    split_pool([&](const kernels::PoolShape& part, std::size_t in, std::size_t out) {
      kernels::max_pool_forward(part, true, y + in, place_.output->values() + offset + out,
                                winner_ + offset + out);
    });
  }

  void pool_backward(int pass) {
    const std::size_t offset = pass * pooled_floats_per_pass();
    split_pool([&](const kernels::PoolShape& part, std::size_t in, std::size_t out) {
      kernels::max_pool_backward(part, place_.output->gradients() + offset + out, winner_ + offset + out,
                                 pass_gradient_ + in);
    });
  }

  Place place_;
  model::Convolution settings_;
  const Team* team_;
  bool round_bf16_;
  bool pooled_;
  int images_ = 0;  // of one pass
  int passes_ = 1;
  memory::desc x_desc_;
  memory::desc bias_desc_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_backward_weights::primitive_desc weights_desc_;
  dnnl::convolution_backward_data::primitive_desc data_desc_;
  std::optional<ParameterView> weights_;
  std::optional<ParameterView> bias_;
  std::optional<InputGradient> input_gradient_;
  std::optional<kernels::WeightsGradientShape> own_;
  kernels::PoolShape pool_;
  BufferId pass_output_buffer_ = no_buffer;
  BufferId pass_gradient_buffer_ = no_buffer;
  BufferId winner_buffer_ = no_buffer;
  float* pass_output_ = nullptr;
  float* pass_gradient_ = nullptr;
  std::uint8_t* winner_ = nullptr;
  Scratch forward_scratch_;
  Scratch weights_scratch_;
  Scratch data_scratch_;
  memory x_;
  memory y_;
  memory dy_;
  memory dx_;
  dnnl::primitive forward_;
  dnnl::primitive weights_primitive_;
  dnnl::primitive data_;
  Arguments forward_arguments_;
  Arguments weights_arguments_[2];  // overwriting, adding
  Arguments data_arguments_;
};

}  // namespace

std::unique_ptr<Op> make_convolution(const Builder& builder, const Place& place) {
  return std::make_unique<ConvolutionOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
