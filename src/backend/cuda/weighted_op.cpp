#include "backend/cuda/op.hpp"
#include "kernels/cuda/bias_gradient.hpp"
#include "kernels/cuda/elementwise.hpp"

namespace dtrain::backend::cuda {

namespace {

// The three graphs of a layer with weights.
struct Graphs {
  GraphSpec forward;
  GraphSpec weight_gradient;
  GraphSpec data_gradient;
};

Graphs convolution_graphs(const model::Convolution& layer, const Tensor& input, Element element, bool relu) {
  const ConvolutionShape shape{.batch = input.shape.batch,
                               .in_channels = input.shape.channels,
                               .in_height = input.shape.height,
                               .in_width = input.shape.width,
                               .out_channels = layer.out_channels,
                               .kernel = layer.kernel,
                               .padding = layer.padding};
  return {ConvolutionForward{shape, element, layer.bias, relu}, ConvolutionWeightGradient{shape, element},
          ConvolutionDataGradient{shape, element}};
}

Graphs dense_graphs(const model::Dense& layer, const Tensor& input, Element element, bool relu) {
  const DenseShape shape{.batch = input.shape.batch,
                         .inputs = input.shape.channels * input.shape.height * input.shape.width,
                         .outputs = layer.out_features};
  return {DenseForward{shape, element, layer.bias, relu}, DenseWeightGradient{shape, element},
          DenseDataGradient{shape, element}};
}

class WeightedOp final : public Op {
 public:
  WeightedOp(const Builder& builder, const Place& place)
      : place_(place),
        element_(builder.element),
        weight_(builder.layout->find(place.fused->layer, "_w")),
        bias_(builder.layout->find(place.fused->layer, "_b")) {
    const Tensor& input = *place_.inputs.front();
    const auto* convolution = std::get_if<model::Convolution>(&place_.layer->operation);
    graphs_ = convolution != nullptr ? convolution_graphs(*convolution, input, element_, place_.fused->relu)
                                     : dense_graphs(std::get<model::Dense>(place_.layer->operation), input,
                                                    element_, place_.fused->relu);
    const int now = builder.moments - 1 - place_.index;
    if (bias_ != nullptr) {
      scratch_ = builder.buffer(kernels::cuda::bias_scratch(place_.output->shape.channels) * sizeof(float),
                                now, now);
    }
    if (input.gradient != no_buffer && place_.accumulates.front()) {
      addend_ = builder.buffer(input.elements() * kernels::cuda::size_of(element_), now, now);
    }
  }

  void bind(const Bindings& bindings) override {
    const Tensor& input = *place_.inputs.front();
    const Tensor& output = *place_.output;
    const auto part = [&](void* buffer, const FlatLayout::Entry& entry) -> void* {
      return static_cast<std::byte*>(buffer) + entry.offset * kernels::cuda::size_of(element_);
    };
    plans_ = bindings.plans;
    stream_ = bindings.stream;
    bias_scratch_ = bindings.at<float>(scratch_);
    added_ = bindings.at<void>(addend_);
    void* weight = part(bindings.flat.compute_weights, *weight_);
    staged_ = part(bindings.flat.staged_gradients, *weight_);
    in_place_ = bindings.flat.gradients + weight_->offset;
    if (bias_ != nullptr) bias_gradient_ = bindings.flat.gradients + bias_->offset;

    forward_bindings_ = {{Role::x, input.values}, {Role::w, weight}, {Role::y, output.values}};
    if (bias_ != nullptr) {
      forward_bindings_.push_back({Role::bias, part(bindings.flat.compute_weights, *bias_)});
    }
    weight_bindings_ = {{Role::x, input.values}, {Role::dy, output.gradients}, {Role::dw, staged_}};
    forward_ = plans_->get(graphs_.forward, forward_bindings_);
    weight_gradient_ = plans_->get(graphs_.weight_gradient, weight_bindings_);
    if (input.gradients == nullptr) return;
    data_bindings_ = {{Role::w, weight},
                      {Role::dy, output.gradients},
                      {Role::dx, added_ != nullptr ? added_ : input.gradients}};
    data_gradient_ = plans_->get(graphs_.data_gradient, data_bindings_);
  }

  void forward(bool) override { plans_->execute(*forward_, forward_bindings_); }

  void backward_parameters(bool add) override {
    const Tensor& output = *place_.output;
    if (place_.fused->relu) {
      DTRAIN_CUDA(kernels::cuda::relu_backward(output.values, output.gradients, output.gradients, element_,
                                               output.elements(), stream_));
    }
    weight_bindings_.back().data = stages(element_, add) ? staged_ : in_place_;
    plans_->execute(*weight_gradient_, weight_bindings_);
    if (bias_ == nullptr) return;
    DTRAIN_CUDA(kernels::cuda::bias_gradient(output.gradients, element_, output.rows(), output.shape.channels,
                                             bias_gradient_, add, bias_scratch_, stream_));
  }

  void backward_inputs() override {
    if (!data_gradient_) return;
    plans_->execute(*data_gradient_, data_bindings_);
    if (added_ == nullptr) return;
    const Tensor& input = *place_.inputs.front();
    DTRAIN_CUDA(kernels::cuda::accumulate(added_, input.gradients, element_, input.elements(), stream_));
  }

 private:
  Place place_;
  Element element_;
  const FlatLayout::Entry* weight_;
  const FlatLayout::Entry* bias_;
  Graphs graphs_;
  BufferId scratch_ = no_buffer;  // for bias gradients
  BufferId addend_ = no_buffer;   // a data gradient that is then added

  Plans* plans_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Plans::PlanPtr forward_;
  Plans::PlanPtr weight_gradient_;
  Plans::PlanPtr data_gradient_;
  std::vector<Binding> forward_bindings_;
  std::vector<Binding> weight_bindings_;  // dw last
  std::vector<Binding> data_bindings_;
  void* staged_ = nullptr;
  float* in_place_ = nullptr;
  float* bias_gradient_ = nullptr;
  float* bias_scratch_ = nullptr;
  void* added_ = nullptr;
};

}  // namespace

std::unique_ptr<Op> make_weighted(const Builder& builder, const Place& place) {
  return std::make_unique<WeightedOp>(builder, place);
}

}  // namespace dtrain::backend::cuda
