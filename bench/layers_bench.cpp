// Each layer of a training step on one core against the roof that bounds it: the arithmetic that the core's
// registers reach in the same run. `share_of_peak` is what a layer reaches of it.

#include <benchmark/benchmark.h>

#include "backend/cpu/layer_profile.hpp"
#include "kernels/peak.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;

void report(benchmark::State& state, double seconds, double flops, double peak) {
  state.SetIterationTime(seconds);
  state.counters["gflops"] = flops / seconds * 1e-9;
  state.counters["share_of_peak"] = flops / seconds / peak;
}

void register_model(const std::string& name, int batch, int steps) {
  const model::Model model = model::zoo().at(name).value();
  const double peak = kernels::measure_peak_flops();
  for (const auto& layer : backend::cpu::profile_layers(model, batch, steps)) {
    const auto add = [&](const std::string& pass, double seconds, double flops) {
      benchmark::RegisterBenchmark(
          (name + "/" + std::to_string(batch) + "/" + layer.layer + "/" + pass).c_str(),
          [=](benchmark::State& state) {
            for (auto _ : state) report(state, seconds, flops, peak);
          })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    };
    add("forward", layer.forward_seconds, layer.forward_flops);
    add("backward", layer.backward_seconds, layer.backward_flops);
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  register_model("cnn", 64, 20);
  register_model("resnet9", 16, 3);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
