#include "backend/cuda/op.hpp"
#include "kernels/cuda/batch_norm.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/running_statistics.hpp"
#include "kernels/cuda/take_gradients.hpp"

namespace dtrain::backend::cuda {

namespace {

class BatchNormOp final : public Op {
 public:
  BatchNormOp(const Builder& builder, const Place& place)
      : place_(place),
        operation_(std::get<model::BatchNorm>(place.layer->operation)),
        element_(builder.element),
        gamma_(builder.layout->find(place.fused->layer, "_gamma")),
        beta_(builder.layout->find(place.fused->layer, "_beta")) {
    for (const model::Statistic& statistic : builder.model->statistics) {
      if (statistic.layer != place.fused->layer) continue;
      (statistic.name.ends_with("_mean") ? mean_offset_ : variance_offset_) = statistic.offset;
    }
    const int end = builder.moments - 1 - place_.index;
    const std::size_t bytes = static_cast<std::size_t>(channels()) * sizeof(float);
    mean_ = builder.buffer(bytes, place_.index, end);
    inverse_deviation_ = builder.buffer(bytes, place_.index, end);
    parameter_gradients_ = builder.buffer(2 * padded_bytes(), end, end);
    const Tensor& input = *place_.inputs.front();
    if (input.gradient != no_buffer && place_.accumulates.front()) {
      addend_ = builder.buffer(input.elements() * kernels::cuda::size_of(element_), end, end);
    }
  }

  void bind(const Bindings& bindings) override {
    const Tensor& input = *place_.inputs.front();
    plans_ = bindings.plans;
    stream_ = bindings.stream;
    auto* mean = bindings.at<float>(mean_);
    auto* inverse_deviation = bindings.at<float>(inverse_deviation_);
    float* gamma = bindings.flat.weights + gamma_->offset;
    float* beta = bindings.flat.weights + beta_->offset;
    dgamma_ = bindings.flat.gradients + gamma_->offset;
    dbeta_ = bindings.flat.gradients + beta_->offset;
    added_dgamma_ = bindings.at<float>(parameter_gradients_);
    added_dbeta_ = added_dgamma_ + padded_bytes() / sizeof(float);
    added_ = bindings.at<void>(addend_);
    running_ = {.batch_mean = mean,
                .batch_inverse_deviation = inverse_deviation,
                .running_mean = bindings.flat.statistics + mean_offset_,
                .running_variance = bindings.flat.statistics + variance_offset_,
                .epsilon = operation_.epsilon,
                .momentum = operation_.momentum,
                .count = static_cast<double>(input.rows())};
    inference_ = {.mean = running_.running_mean,
                  .variance = running_.running_variance,
                  .gamma = gamma,
                  .beta = beta,
                  .epsilon = operation_.epsilon};

    forward_bindings_ = {{Role::x, input.values}, {Role::gamma, gamma},
                         {Role::beta, beta},      {Role::y, place_.output->values},
                         {Role::mean, mean},      {Role::inverse_deviation, inverse_deviation}};
    forward_ = plans_->get(BatchNormForward{.shape = input.shape,
                                            .element = element_,
                                            .relu = place_.fused->relu,
                                            .epsilon = operation_.epsilon},
                           forward_bindings_);
    void* dx = added_ != nullptr ? added_ : input.gradients;
    backward_bindings_ = {{Role::x, input.values},
                          {Role::dy, place_.output->gradients},
                          {Role::gamma, gamma},
                          {Role::mean, mean},
                          {Role::inverse_deviation, inverse_deviation},
                          {Role::dx, dx},
                          {Role::dgamma, added_dgamma_},
                          {Role::dbeta, added_dbeta_}};
    backward_ = plans_->get(BatchNormBackward{.shape = input.shape, .element = element_}, backward_bindings_);
  }

  void forward(bool training) override {
    if (training) {
      plans_->execute(*forward_, forward_bindings_);
      DTRAIN_CUDA(kernels::cuda::update_running_statistics(running_, channels(), stream_));
      return;
    }
    const Tensor& input = *place_.inputs.front();
    DTRAIN_CUDA(kernels::cuda::batch_norm_inference(input.values, place_.output->values, element_,
                                                    input.rows(), channels(), inference_, place_.fused->relu,
                                                    stream_));
  }

  // One graph gives the gradients of the parameters and of the input.
  void backward_parameters(bool add) override {
    const Tensor& output = *place_.output;
    if (place_.fused->relu) {
      DTRAIN_CUDA(kernels::cuda::relu_backward(output.values, output.gradients, output.gradients, element_,
                                               output.elements(), stream_));
    }
    backward_bindings_[6].data = add ? added_dgamma_ : dgamma_;
    backward_bindings_[7].data = add ? added_dbeta_ : dbeta_;
    plans_->execute(*backward_, backward_bindings_);
    if (!add) return;
    const auto size = static_cast<std::size_t>(channels());
    const kernels::cuda::Segment whole[] = {{0, 0, size}};
    DTRAIN_CUDA(
        kernels::cuda::take_gradients(added_dgamma_, Element::f32, dgamma_, whole, true, nullptr, stream_));
    DTRAIN_CUDA(
        kernels::cuda::take_gradients(added_dbeta_, Element::f32, dbeta_, whole, true, nullptr, stream_));
  }

  void backward_inputs() override {
    if (added_ == nullptr) return;
    const Tensor& input = *place_.inputs.front();
    DTRAIN_CUDA(kernels::cuda::accumulate(added_, input.gradients, element_, input.elements(), stream_));
  }

 private:
  int channels() const { return place_.output->shape.channels; }
  std::size_t padded_bytes() const {
    constexpr std::size_t line = 128;
    return (static_cast<std::size_t>(channels()) * sizeof(float) + line - 1) / line * line;
  }

  Place place_;
  model::BatchNorm operation_;
  Element element_;
  const FlatLayout::Entry* gamma_;
  const FlatLayout::Entry* beta_;
  std::size_t mean_offset_ = 0;  // in the statistics
  std::size_t variance_offset_ = 0;
  BufferId mean_ = no_buffer;
  BufferId inverse_deviation_ = no_buffer;
  BufferId parameter_gradients_ = no_buffer;  // that are then added
  BufferId addend_ = no_buffer;               // a data gradient that is then added

  Plans* plans_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Plans::PlanPtr forward_;
  Plans::PlanPtr backward_;
  std::vector<Binding> forward_bindings_;
  std::vector<Binding> backward_bindings_;  // dgamma and dbeta last
  kernels::cuda::RunningStatistics running_;
  kernels::cuda::BatchNormValues inference_;
  float* dgamma_ = nullptr;
  float* dbeta_ = nullptr;
  float* added_dgamma_ = nullptr;
  float* added_dbeta_ = nullptr;
  void* added_ = nullptr;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const Builder& builder, const Place& place) {
  return std::make_unique<BatchNormOp>(builder, place);
}

}  // namespace dtrain::backend::cuda
