#include "base/text.hpp"
#include "cli/training_flags.hpp"

namespace dtrain::cli {

namespace {

const config::Options defaults;

}  // namespace

void declare_part_flags(Flags& flags, config::Options& options) {
  flags.group("Parts of a model");
  flags.value("--pipeline-stages", "S", "pipeline: devices that the model is cut over [all of a run]",
              [&options](const std::string& text) {
                options.pipeline_stages =
                    config::parse_integer(text, "--pipeline-stages", 1, config::max_replicas);
              });
  flags.value("--micro-batches", "M", "pipeline: what a pipeline's images of a step are cut into [8 a stage]",
              [&options](const std::string& text) {
                options.micro_batches = config::parse_integer(text, "--micro-batches", 1, 65536);
              });
  flags.choice("--pipeline-schedule", {"1f1b", "gpipe"},
               fmt::format("pipeline: 1f1b goes backward as soon as it can, gpipe after all of forward [{}]",
                           defaults.pipeline_schedule),
               [&options](const std::string& text) { options.pipeline_schedule = text; });
  flags.value("--cut", "LAYERS",
              "pipeline: where stages begin, a,b,...: layers, or channels inside of one (conv2:32) [by cost]",
              [&options](const std::string& text) { options.cut = split(text, ','); });
  flags.choice("--zero-stage", {"1", "2", "3"},
               fmt::format("sharded: 1 optimizer states, 2 gradients as well, 3 weights as well [{}]",
                           defaults.zero_stage),
               [&options](const std::string& text) {
                 options.zero_stage = config::parse_integer(text, "--zero-stage", 1, 3);
               });
  flags.path("--pjrt-plugin", "FILE", "tpu: PJRT plugin that drives the devices [libtpu]",
             options.pjrt_plugin);
}

}  // namespace dtrain::cli
