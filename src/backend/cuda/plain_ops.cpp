#include "backend/cuda/op.hpp"
#include "kernels/cuda/elementwise.hpp"

namespace dtrain::backend::cuda {

namespace {

using kernels::cuda::size_of;

class MaxPoolOp final : public Op {
 public:
  MaxPoolOp(const Builder& builder, const Place& place)
      : place_(place),
        size_(std::get<model::MaxPool>(place.layer->operation).size),
        element_(builder.element) {
    const int end = builder.moments - 1 - place_.index;
    index_ = builder.buffer(place_.output->elements(), place_.index, end);
    const Tensor& input = *place_.inputs.front();
    if (input.gradient != no_buffer && place_.accumulates.front()) {
      addend_ = builder.buffer(input.elements() * size_of(element_), end, end);
    }
  }

  void bind(const Bindings& bindings) override {
    const Tensor& input = *place_.inputs.front();
    plans_ = bindings.plans;
    stream_ = bindings.stream;
    added_ = bindings.at<void>(addend_);
    void* index = bindings.at<void>(index_);
    forward_bindings_ = {{Role::x, input.values}, {Role::y, place_.output->values}, {Role::index, index}};
    forward_ =
        plans_->get(MaxPoolForward{.shape = input.shape, .size = size_, .element = element_, .index = true},
                    forward_bindings_);
    if (input.gradients == nullptr) return;
    dx_ = added_ != nullptr ? added_ : input.gradients;
    backward_bindings_ = {{Role::dy, place_.output->gradients}, {Role::index, index}, {Role::dx, dx_}};
    backward_ = plans_->get(MaxPoolBackward{.shape = input.shape, .size = size_, .element = element_},
                            backward_bindings_);
  }

  void forward(bool) override { plans_->execute(*forward_, forward_bindings_); }
  void backward_parameters(bool) override {}

  void backward_inputs() override {
    if (!backward_) return;
    const Tensor& input = *place_.inputs.front();
    const bool incomplete = input.shape.height % size_ != 0 || input.shape.width % size_ != 0;
    if (incomplete) DTRAIN_CUDA(cudaMemsetAsync(dx_, 0, input.elements() * size_of(element_), stream_));
    plans_->execute(*backward_, backward_bindings_);
    if (added_ == nullptr) return;
    DTRAIN_CUDA(kernels::cuda::accumulate(added_, input.gradients, element_, input.elements(), stream_));
  }

 private:
  Place place_;
  int size_;
  Element element_;
  BufferId index_ = no_buffer;
  BufferId addend_ = no_buffer;  // a data gradient that is then added

  Plans* plans_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Plans::PlanPtr forward_;
  Plans::PlanPtr backward_;
  std::vector<Binding> forward_bindings_;
  std::vector<Binding> backward_bindings_;
  void* dx_ = nullptr;
  void* added_ = nullptr;
};

// A ReLU that no layer before it could take in.
class ReluOp final : public Op {
 public:
  ReluOp(const Builder& builder, const Place& place) : place_(place), element_(builder.element) {}

  void bind(const Bindings& bindings) override { stream_ = bindings.stream; }

  // x masked by itself: x where it is positive, else 0.
  void forward(bool) override {
    const Tensor& input = *place_.inputs.front();
    DTRAIN_CUDA(kernels::cuda::relu_backward(input.values, input.values, place_.output->values, element_,
                                             input.elements(), stream_));
  }
  void backward_parameters(bool) override {}

  void backward_inputs() override {
    const Tensor& input = *place_.inputs.front();
    const Tensor& output = *place_.output;
    if (input.gradients == nullptr) return;
    if (!place_.accumulates.front()) {
      DTRAIN_CUDA(kernels::cuda::relu_backward(output.values, output.gradients, input.gradients, element_,
                                               output.elements(), stream_));
      return;
    }
    DTRAIN_CUDA(kernels::cuda::relu_backward(output.values, output.gradients, output.gradients, element_,
                                             output.elements(), stream_));
    DTRAIN_CUDA(
        kernels::cuda::accumulate(output.gradients, input.gradients, element_, output.elements(), stream_));
  }

 private:
  Place place_;
  Element element_;
  cudaStream_t stream_ = nullptr;
};

class AddOp final : public Op {
 public:
  AddOp(const Builder& builder, const Place& place) : place_(place), element_(builder.element) {}

  void bind(const Bindings& bindings) override { stream_ = bindings.stream; }

  void forward(bool) override {
    const Tensor& output = *place_.output;
    DTRAIN_CUDA(kernels::cuda::add(place_.inputs[0]->values, place_.inputs[1]->values, output.values,
                                   element_, output.elements(), stream_));
  }
  void backward_parameters(bool) override {}

  void backward_inputs() override {
    const Tensor& output = *place_.output;
    for (std::size_t k = 0; k < place_.inputs.size(); ++k) {
      void* gradients = place_.inputs[k]->gradients;
      if (gradients == nullptr) continue;
      if (place_.accumulates[k]) {
        DTRAIN_CUDA(
            kernels::cuda::accumulate(output.gradients, gradients, element_, output.elements(), stream_));
      } else {
        DTRAIN_CUDA(cudaMemcpyAsync(gradients, output.gradients, output.elements() * size_of(element_),
                                    cudaMemcpyDeviceToDevice, stream_));
      }
    }
  }

 private:
  Place place_;
  Element element_;
  cudaStream_t stream_ = nullptr;
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

}  // namespace dtrain::backend::cuda
