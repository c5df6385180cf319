#include "backend/cuda/program.hpp"

#include "backend/cuda/memory.hpp"
#include "base/overloaded.hpp"
#include "datasets/pipeline.hpp"

namespace dtrain::backend::cuda {

namespace {

using kernels::cuda::size_of;

// Whether an op's backward reads its input's values.
bool needs_input(const model::Layer& layer) {
  return std::holds_alternative<model::Convolution>(layer.operation) ||
         std::holds_alternative<model::Dense>(layer.operation) ||
         std::holds_alternative<model::BatchNorm>(layer.operation);
}

// Whether an op's backward reads its own output to mask a ReLU.
bool needs_output(const FusedLayer& fused, const model::Layer& layer) {
  return fused.relu || std::holds_alternative<model::Relu>(layer.operation);
}

ActivationShape shape_of(const model::Shape& shape, int count) {
  return {.batch = count, .channels = shape.channels, .height = shape.height, .width = shape.width};
}

}  // namespace

// Moments: forward of op i at i, the loss at L, backward of op i at 2 L - i.
Program::Program(const model::Model& model, const FlatLayout& layout, int count, Element element)
    : model_(&model),
      count_(count),
      element_(element),
      fused_(lower(model, PoolFusion::none)),
      tensors_(fused_.size()) {
  const int ops = static_cast<int>(fused_.size());
  std::vector<Lifetime> lifetimes;
  Builder builder{.model = &model,
                  .layout = &layout,
                  .lifetimes = &lifetimes,
                  .element = element,
                  .moments = 2 * ops + 1};
  image_.shape = shape_of(model.image, count);
  image_.shape.channels = layout.image_channels();
  image_.value = builder.buffer(image_.elements() * size_of(element), 0, 2 * ops);
  labels_ = builder.buffer(static_cast<std::size_t>(count) * sizeof(std::int32_t), 0, ops);
  loss_scratch_ = builder.buffer(kernels::cuda::loss_scratch * sizeof(double), ops, ops);
  make_tensors(builder);
  for (std::size_t i = 0; i < fused_.size(); ++i) ops_.push_back(make_op(builder, i));
  plan_ = plan_arena(lifetimes, DeviceMemory::alignment);
}

void Program::make_tensors(Builder& builder) {
  const int ops = static_cast<int>(fused_.size());
  for (std::size_t i = 0; i < fused_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    tensor.shape = shape_of(model_->layers[static_cast<std::size_t>(fused_[i].layer)].output, count_);
    const std::size_t bytes = tensor.elements() * size_of(element_);
    const int now = static_cast<int>(i);
    tensor.value = builder.buffer(bytes, now, last_use(i));
    tensor.gradient = builder.buffer(bytes, 2 * ops - last_consumer(fused_, i), 2 * ops - now);
  }
}

int Program::last_use(std::size_t index) const {
  const int ops = static_cast<int>(fused_.size());
  const auto layer_of = [&](std::size_t i) -> const model::Layer& {
    return model_->layers[static_cast<std::size_t>(fused_[i].layer)];
  };
  const int now = static_cast<int>(index);
  int last = needs_output(fused_[index], layer_of(index)) ? 2 * ops - now : now;
  if (fused_[index].consumers == 0) last = std::max(last, ops);
  for (std::size_t c = index + 1; c < fused_.size(); ++c) {
    for (const int input : fused_[c].inputs) {
      if (input != now) continue;
      const int moment = static_cast<int>(c);
      last = std::max(last, needs_input(layer_of(c)) ? 2 * ops - moment : moment);
    }
  }
  return last;
}

std::unique_ptr<Op> Program::make_op(const Builder& builder, std::size_t index) {
  const FusedLayer& fused = fused_[index];
  Place place;
  place.index = static_cast<int>(index);
  place.fused = &fused;
  place.layer = &model_->layers[static_cast<std::size_t>(fused.layer)];
  place.output = &tensors_[index];
  for (std::size_t k = 0; k < fused.inputs.size(); ++k) {
    const int input = fused.inputs[k];
    place.inputs.push_back(input == model::image_input ? &image_
                                                       : &tensors_[static_cast<std::size_t>(input)]);
    place.accumulates.push_back(adds_to_gradient(fused_, index, k));
  }
  return std::visit(Overloaded{[&](const model::Convolution&) { return make_weighted(builder, place); },
                               [&](const model::Dense&) { return make_weighted(builder, place); },
                               [&](const model::BatchNorm&) { return make_batch_norm(builder, place); },
                               [&](const model::MaxPool&) { return make_max_pool(builder, place); },
                               [&](const model::Relu&) { return make_relu(builder, place); },
                               [&](const model::Add&) { return make_add(builder, place); },
                               [&](const auto&) -> std::unique_ptr<Op> {
                                 throw std::logic_error("a collective layer, which GPU replicas do not have");
                               }},
                    place.layer->operation);
}

void Program::bind(std::byte* arena, const FlatBuffers& flat, Plans& plans, cudaStream_t stream) {
  const Bindings bindings{
      .arena = arena, .offsets = &plan_.offsets, .flat = flat, .plans = &plans, .stream = stream};
  stream_ = stream;
  image_.values = bindings.at<void>(image_.value);
  for (Tensor& tensor : tensors_) {
    tensor.values = bindings.at<void>(tensor.value);
    tensor.gradients = bindings.at<void>(tensor.gradient);
  }
  image_target_ = {.images = image_.values,
                   .element = element_,
                   .channels = image_.shape.channels,
                   .labels = bindings.at<std::int32_t>(labels_)};
  loss_sums_ = bindings.at<double>(loss_scratch_);
  for (const auto& op : ops_) op->bind(bindings);
}

void Program::load(const kernels::cuda::StepBlock* block) {
  static const auto normalisation =
      kernels::Normalisation::from(datasets::channel_mean, datasets::channel_deviation);
  DTRAIN_CUDA(kernels::cuda::load_images(block, normalisation, count_, image_target_, stream_));
}

void Program::forward(bool training) {
  for (const auto& op : ops_) op->forward(training);
}

void Program::loss(const kernels::cuda::StepBlock* block, kernels::cuda::StepOutcome* outcome,
                   bool gradient) {
  const Tensor& logits = tensors_.back();
  const kernels::cuda::LossBatch batch{.logits = logits.values,
                                       .labels = image_target_.labels,
                                       .gradient = gradient ? logits.gradients : nullptr,
                                       .element = element_,
                                       .count = count_,
                                       .classes = model_->classes};
  DTRAIN_CUDA(kernels::cuda::softmax_cross_entropy(batch, block, outcome, loss_sums_, stream_));
}

void Program::backward(bool add, const std::function<void(int)>& layer_done) {
  for (std::size_t i = ops_.size(); i-- > 0;) {
    ops_[i]->backward_parameters(add);
    layer_done(fused_[i].layer);
    ops_[i]->backward_inputs();
  }
}

}  // namespace dtrain::backend::cuda
