#include "backend/cpu/layer_profile.hpp"

#include <algorithm>

#include "backend/cpu/program.hpp"
#include "base/aligned_buffer.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "model/flops.hpp"

namespace dtrain::backend::cpu {

namespace {

std::string name_of(const model::Model& model, const FusedLayer& fused) {
  std::string name = model.layers[static_cast<std::size_t>(fused.layer)].name;
  if (std::holds_alternative<model::BatchNorm>(
          model.layers[static_cast<std::size_t>(fused.layer)].operation)) {
    name += " (batch norm)";
  }
  if (fused.relu) name += "+relu";
  if (fused.pool_layer >= 0) name += "+" + model.layers[static_cast<std::size_t>(fused.pool_layer)].name;
  return name;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::vector<LayerTime> profile_layers(const model::Model& model, int batch, int steps) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  const Team team(1, {});
  FlatLayout layout;
  Program program(model, engine, team, batch, false, layout);
  AlignedBuffer<std::byte> arena(program.arena_bytes());
  AlignedBuffer<float> weights(layout.size);
  AlignedBuffer<float> gradients(layout.size);
  AlignedBuffer<float> statistics(model.statistic_count);
  AlignedBuffer<float> images(static_cast<std::size_t>(batch) * model.image.elements());
  Random random(1);
  for (float& value : weights.span()) value = static_cast<float>(0.05 * random.normal());
  for (float& value : images.span()) value = static_cast<float>(random.normal());
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(batch), 0);
  program.bind(engine, arena.data(), weights.data(), gradients.data(), statistics.data());

  const std::size_t ops = program.ops().size();
  std::vector<std::vector<double>> forward(ops);
  std::vector<std::vector<double>> backward(ops);
  for (int step = 0; step < steps; ++step) {
    program.feed(images.data());
    for (std::size_t i = 0; i < ops; ++i) {
      const TimePoint begin = Clock::now();
      program.ops()[i]->forward(stream, true);
      forward[i].push_back(seconds(Clock::now() - begin));
    }
    program.loss(labels, 1.0F, true);
    for (std::size_t i = ops; i-- > 0;) {
      const TimePoint begin = Clock::now();
      program.ops()[i]->backward_parameters(stream, false);
      program.ops()[i]->backward_inputs(stream);
      backward[i].push_back(seconds(Clock::now() - begin));
    }
  }

  std::vector<LayerTime> times;
  for (std::size_t i = 0; i < ops; ++i) {
    const FusedLayer& fused = program.fused()[i];
    const double flops = batch * model::forward_flops(model.layers[static_cast<std::size_t>(fused.layer)]);
    const bool reads_image = fused.inputs.front() == model::image_input;
    times.push_back({name_of(model, fused), fused.layer, median(forward[i]), median(backward[i]), flops,
                     flops * (reads_image ? 1 : 2)});
  }
  return times;
}

std::vector<double> measure_layers(const model::Model& model, int batch) {
  constexpr Seconds longest{0.5};
  constexpr int fewest_runs = 2;
  constexpr int steps_a_run = 3;
  std::vector<double> least(model.layers.size(), 0.0);
  const TimePoint begin = Clock::now();
  for (int run = 0; run < fewest_runs || Clock::now() - begin < longest; ++run) {
    for (const LayerTime& time : profile_layers(model, batch, steps_a_run)) {
      double& cost = least[static_cast<std::size_t>(time.index)];
      const double measured = time.forward_seconds + time.backward_seconds;
      cost = run == 0 ? measured : std::min(cost, measured);
    }
  }
  return least;
}

}  // namespace dtrain::backend::cpu
