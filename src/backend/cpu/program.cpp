#include "backend/cpu/program.hpp"

#include "backend/cpu/collective_ops.hpp"
#include "base/overloaded.hpp"
#include "kernels/softmax_cross_entropy.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;

bool is_sum(const model::Model& model, const FusedLayer& fused) {
  return std::holds_alternative<model::SumGradients>(
      model.layers[static_cast<std::size_t>(fused.layer)].operation);
}

// They may be gathered after that.
int op_of_logits(const std::vector<FusedLayer>& fused, const model::Model& model) {
  const model::Layer& last = model.layers[static_cast<std::size_t>(fused.back().layer)];
  if (std::holds_alternative<model::GatherChannels>(last.operation)) return fused.back().inputs[0];
  return static_cast<int>(fused.size()) - 1;
}

// Whether an op's backward reads its input's values.
bool needs_input(const model::Layer& layer) {
  return std::holds_alternative<model::Convolution>(layer.operation) ||
         std::holds_alternative<model::Dense>(layer.operation) ||
         std::holds_alternative<model::BatchNorm>(layer.operation);
}

// Whether an op's backward reads its own output to mask a ReLU. Batch norm keeps its mask in a workspace.
bool needs_output(const FusedLayer& fused, const model::Layer& layer) {
  if (std::holds_alternative<model::Relu>(layer.operation)) return true;
  return fused.relu && fused.pool_layer < 0 && !std::holds_alternative<model::BatchNorm>(layer.operation);
}

std::vector<Range> parameter_ranges(const model::Model& model, const std::vector<FusedLayer>& fused,
                                    const FlatLayout& layout) {
  std::vector<Range> ranges(fused.size());
  for (std::size_t i = 0; i < fused.size(); ++i) {
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      if (model.parameters[p].layer != fused[i].layer) continue;
      const std::size_t begin = layout.entries[p].offset;
      const std::size_t end = p + 1 < layout.entries.size() ? layout.entries[p + 1].offset : layout.size;
      if (ranges[i].size == 0) ranges[i].offset = begin;
      ranges[i].size = end - ranges[i].offset;
    }
  }
  return ranges;
}

}  // namespace

// Moments: forward of op i at i, the loss at L, backward of op i at 2 L - i.
Program::Program(const model::Model& model, const dnnl::engine& engine, const Team& team, int count,
                 bool round_bf16, FlatLayout& layout, bool input_gradient, const CollectiveLink* link)
    : model_(&model), count_(count), fused_(lower(model)), tensors_(fused_.size()) {
  const int ops = static_cast<int>(fused_.size());
  std::vector<Lifetime> lifetimes;
  Builder builder{.engine = &engine,
                  .model = &model,
                  .team = &team,
                  .layout = &layout,
                  .lifetimes = &lifetimes,
                  .count = count,
                  .moments = 2 * ops + 1,
                  .round_bf16 = round_bf16,
                  .logits = op_of_logits(fused_, model),
                  .link = link};
  if (!layout.complete) layout.entries.resize(model.parameters.size());
  image_.desc = {{count, model.image.channels, model.image.height, model.image.width},
                 memory::data_type::f32,
                 memory::format_tag::nchw};
  if (input_gradient) image_.gradient = builder.buffer(image_.desc.get_size(), ops, 2 * ops);

  for (std::size_t i = 0; i < fused_.size(); ++i) {
    ops_.push_back(make_op(builder, i));
    plan_buffers(builder, i);
  }
  layout.complete = true;
  parameters_ = parameter_ranges(model, fused_, layout);
  plan_ = plan_arena(lifetimes);
}

// A sum of gradients has its input's values, and where nothing else reads that, its gradient as well.
void Program::plan_buffers(const Builder& builder, std::size_t index) {
  Tensor& tensor = tensors_[index];
  const int back = builder.moments - 1 - static_cast<int>(index);
  const std::size_t bytes = tensor.desc.get_size();
  const bool sums = is_sum(*model_, fused_[index]);
  const auto input = static_cast<std::size_t>(sums ? fused_[index].inputs[0] : 0);
  tensor.value =
      sums ? tensors_[input].value : builder.buffer(bytes, static_cast<int>(index), last_use(index));
  if (sums && fused_[input].consumers == 1) {
    tensor.gradient = tensors_[input].gradient;
    return;
  }
  auto written = static_cast<std::size_t>(last_consumer(fused_, index));
  if (fused_[index].consumers == 1 && is_sum(*model_, fused_[written])) {
    written = static_cast<std::size_t>(last_consumer(fused_, written));
  }
  tensor.gradient = builder.buffer(bytes, builder.moments - 1 - static_cast<int>(written), back);
}

int Program::last_use(std::size_t index) const {
  const int ops = static_cast<int>(fused_.size());
  const auto& layer_of = [&](std::size_t i) -> const model::Layer& {
    return model_->layers[static_cast<std::size_t>(fused_[i].layer)];
  };
  int last = needs_output(fused_[index], layer_of(index)) ? 2 * ops - static_cast<int>(index)
                                                          : static_cast<int>(index);
  if (fused_[index].consumers == 0) last = std::max(last, ops);
  for (std::size_t c = index + 1; c < fused_.size(); ++c) {
    for (const int input : fused_[c].inputs) {
      if (input != static_cast<int>(index)) continue;
      const int moment = static_cast<int>(c);
      last = std::max(last, needs_input(layer_of(c)) ? 2 * ops - moment : moment);
      if (is_sum(*model_, fused_[c])) last = std::max(last, last_use(c));
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
  return std::visit(
      Overloaded{[&](const model::Convolution&) { return make_convolution(builder, place); },
                 [&](const model::Dense&) { return make_dense(builder, place); },
                 [&](const model::BatchNorm&) { return make_batch_norm(builder, place); },
                 [&](const model::MaxPool&) { return make_max_pool(builder, place); },
                 [&](const model::Relu&) { return make_relu(builder, place); },
                 [&](const model::Add&) { return make_add(builder, place); },
                 [&](const model::GatherChannels&) { return make_gather_channels(builder, place); },
                 [&](const model::SumGradients&) { return make_sum_gradients(builder, place); },
                 [&](const model::Slice&) { return make_slice(builder, place); },
                 [&](const model::Concatenate&) { return make_concatenate(builder, place); }},
      place.layer->operation);
}

void Program::bind(const dnnl::engine& engine, std::byte* arena, float* weights, float* gradients,
                   float* statistics) {
  const Bindings bindings{.engine = &engine,
                          .arena = arena,
                          .offsets = &plan_.offsets,
                          .weights = weights,
                          .gradients = gradients,
                          .statistics = statistics};
  image_.value_memory = {image_.desc, engine, nullptr};
  if (image_.gradient != no_buffer) image_.gradient_memory = bindings.memory(image_.desc, image_.gradient);
  for (Tensor& tensor : tensors_) {
    tensor.value_memory = bindings.memory(tensor.desc, tensor.value);
    tensor.gradient_memory = bindings.memory(tensor.desc, tensor.gradient);
  }
  for (const auto& op : ops_) op->bind(bindings);
}

void Program::feed(const float* images) {
  image_.value_memory.set_data_handle(const_cast<float*>(images));  // primitives only read their source
}

void Program::forward(const dnnl::stream& stream, bool training, WeightSource* source) {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const bool asks = source != nullptr && parameters_[i].size > 0;
    if (asks) source->need(parameters_[i]);
    ops_[i]->forward(stream, training);
    if (asks) source->done(parameters_[i]);
  }
}

BatchResult Program::loss(std::span<const std::int32_t> labels, float gradient_scale, bool with_gradient) {
  const Tensor& logits = tensors_.back();
  const std::size_t count = labels.size() * static_cast<std::size_t>(model_->classes);
  const std::span<float> gradient(logits.gradients(), with_gradient ? count : 0);
  const kernels::LossSum sum = kernels::softmax_cross_entropy({logits.values(), count}, labels,
                                                              model_->classes, gradient_scale, gradient);
  return {.loss_sum = sum.loss, .correct = sum.correct, .count = count_};
}

void Program::backward(const dnnl::stream& stream, bool add, const std::function<void(int)>& layer_done,
                       WeightSource* source) {
  for (std::size_t i = ops_.size(); i-- > 0;) {
    const bool asks = source != nullptr && parameters_[i].size > 0;
    if (asks) source->need(parameters_[i]);
    ops_[i]->backward_parameters(stream, add);
    layer_done(fused_[i].layer);
    ops_[i]->backward_inputs(stream);
    if (asks) source->done(parameters_[i]);
  }
}

}  // namespace dtrain::backend::cpu
