#include "backend/cpu/layouts.hpp"
#include "backend/cpu/weighted.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/max_pool.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;

constexpr std::size_t grain = 4096;

class MaxPoolOp final : public Op {
 public:
  MaxPoolOp(const Builder& builder, const Place& place) : place_(place), team_(builder.team) {
    const memory::desc& x = place.inputs[0]->desc;
    const model::Shape& in = place.layer->input_shapes[0];
    const model::Shape& out = place.layer->output;
    const ActivationLayout layout = layout_of(x);
    place.output->desc = {
        {builder.count, out.channels, out.height, out.width}, memory::data_type::f32, layout.tag};

    shape_.size = std::get<model::MaxPool>(place.layer->operation).size;
    shape_.height = in.height;
    shape_.width = in.width;
    shape_.inner = layout.inner;
    const std::size_t pixels = static_cast<std::size_t>(in.height) * static_cast<std::size_t>(in.width);
    shape_.outer = x.get_size() / sizeof(float) / (pixels * static_cast<std::size_t>(shape_.inner));
    winner_buffer_ = builder.buffer(place.output->desc.get_size() / sizeof(float), place.index,
                                    builder.moments - 1 - place.index);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0],
                            builder.moments - 1 - place.index);
  }

  void bind(const Bindings& bindings) override {
    winner_ = static_cast<std::uint8_t*>(bindings.at(winner_buffer_));
    input_gradient_->bind(bindings);
  }

  void forward(const dnnl::stream&, bool) override {
    const float* x = place_.inputs[0]->values();
    float* y = place_.output->values();
    team_->split(shape_.outer, 1, [&](std::size_t begin, std::size_t end) {
      kernels::max_pool_forward(part(begin, end), false, x + begin * in_plane(), y + begin * out_plane(),
                                winner_ + begin * out_plane());
    });
  }

  void backward_parameters(const dnnl::stream&, bool) override {}

  void backward_inputs(const dnnl::stream&) override {
    if (!input_gradient_->wanted()) return;
    const float* dy = place_.output->gradients();
    auto* dx = static_cast<float*>(input_gradient_->target().get_data_handle());
    team_->split(shape_.outer, 1, [&](std::size_t begin, std::size_t end) {
      kernels::max_pool_backward(part(begin, end), dy + begin * out_plane(), winner_ + begin * out_plane(),
                                 dx + begin * in_plane());
    });
    input_gradient_->finish(*team_, false);
  }

 private:
  kernels::PoolShape part(std::size_t begin, std::size_t end) const {
    kernels::PoolShape shape = shape_;
    shape.outer = end - begin;
    return shape;
  }
  std::size_t in_plane() const {
    return static_cast<std::size_t>(shape_.height) * shape_.width * shape_.inner;
  }
  std::size_t out_plane() const {
    return static_cast<std::size_t>(shape_.out_height()) * shape_.out_width() * shape_.inner;
  }

  Place place_;
  const Team* team_;
  kernels::PoolShape shape_;
  BufferId winner_buffer_ = no_buffer;
  std::uint8_t* winner_ = nullptr;
  std::optional<InputGradient> input_gradient_;
};

// A ReLU that could not be fused into the layer before it.
class ReluOp final : public Op {
 public:
  ReluOp(const Builder& builder, const Place& place) : place_(place), team_(builder.team) {
    place.output->desc = place.inputs[0]->desc;
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0],
                            builder.moments - 1 - place.index);
  }
  void bind(const Bindings& bindings) override { input_gradient_->bind(bindings); }

  void forward(const dnnl::stream&, bool) override {
    const float* x = place_.inputs[0]->values();
    float* y = place_.output->values();
    team_->split(place_.output->floats(), grain, [&](std::size_t begin, std::size_t end) {
      kernels::relu({x + begin, end - begin}, {y + begin, end - begin});
    });
  }
  void backward_parameters(const dnnl::stream&, bool) override {}
  void backward_inputs(const dnnl::stream&) override {
    if (!input_gradient_->wanted()) return;
    const float* y = place_.output->values();
    const float* dy = place_.output->gradients();
    auto* dx = static_cast<float*>(input_gradient_->target().get_data_handle());
    team_->split(place_.output->floats(), grain, [&](std::size_t begin, std::size_t end) {
      std::copy(dy + begin, dy + end, dx + begin);
      kernels::relu_backward({y + begin, end - begin}, {dx + begin, end - begin});
    });
    input_gradient_->finish(*team_, false);
  }

 private:
  Place place_;
  const Team* team_;
  std::optional<InputGradient> input_gradient_;
};

class AddOp final : public Op {
 public:
  AddOp(const Builder& builder, const Place& place)
      : place_(place), team_(builder.team), round_(builder.round_bf16) {
    place.output->desc = place.inputs[0]->desc;
    if (place.inputs[1]->desc != place.output->desc) {
      converted_buffer_ = builder.buffer(place.output->desc.get_size(), place.index, place.index);
    }
    const int back = builder.moments - 1 - place.index;
    for (std::size_t i = 0; i < 2; ++i) {
      input_gradients_.emplace_back(builder, place.inputs[i], place.accumulates[i], back);
    }
  }
  void bind(const Bindings& bindings) override {
    for (auto& gradient : input_gradients_) gradient.bind(bindings);
    second_ = place_.inputs[1]->value_memory;
    if (converted_buffer_ == no_buffer) return;
    second_ = bindings.memory(place_.output->desc, converted_buffer_);
    convert_ = dnnl::reorder(place_.inputs[1]->value_memory, second_);
    if (!input_gradients_[1].wanted()) return;
    convert_back_ = dnnl::reorder(place_.output->gradient_memory, input_gradients_[1].target());
  }

  void forward(const dnnl::stream& stream, bool) override {
    if (convert_) run(stream, convert_, place_.inputs[1]->value_memory, second_);
    const float* a = place_.inputs[0]->values();
    const auto* b = static_cast<const float*>(second_.get_data_handle());
    float* y = place_.output->values();
    team_->split(place_.output->floats(), grain, [&](std::size_t begin, std::size_t end) {
      kernels::add({a + begin, end - begin}, {b + begin, end - begin}, {y + begin, end - begin});
    });
    if (round_) round_values(*team_, y, place_.output->floats());
  }
  void backward_parameters(const dnnl::stream&, bool) override {}
  void backward_inputs(const dnnl::stream& stream) override {
    const float* dy = place_.output->gradients();
    for (std::size_t i = 0; i < 2; ++i) {
      InputGradient& gradient = input_gradients_[i];
      if (!gradient.wanted()) continue;
      if (i == 1 && convert_back_) {
        run(stream, convert_back_, place_.output->gradient_memory, gradient.target());
      } else {
        auto* dx = static_cast<float*>(gradient.target().get_data_handle());
        team_->split(place_.output->floats(), grain, [&](std::size_t begin, std::size_t end) {
          std::copy(dy + begin, dy + end, dx + begin);
        });
      }
      gradient.finish(*team_, false);
    }
  }

 private:
  static void run(dnnl::stream stream, const dnnl::primitive& reorder, const memory& from, const memory& to) {
    reorder.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  Place place_;
  const Team* team_;
  bool round_;
  std::vector<InputGradient> input_gradients_;
  // Where the second input has another layout than the first, which is the output's:
  BufferId converted_buffer_ = no_buffer;
  memory second_;
  dnnl::reorder convert_;
  dnnl::reorder convert_back_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool(const Builder& builder, const Place& place) {
  return std::make_unique<MaxPoolOp>(builder, place);
}

std::unique_ptr<Op> make_relu(const Builder& builder, const Place& place) {
  return std::make_unique<ReluOp>(builder, place);
}

std::unique_ptr<Op> make_add(const Builder& builder, const Place& place) {
  return std::make_unique<AddOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
