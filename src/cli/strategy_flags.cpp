#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/training_flags.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::cli {

namespace {

const config::Options defaults;

// A flag that means something to one strategy alone.
struct OwnedFlag {
  const char* flag;
  const char* owner;
  bool (*given)(const config::Options&);
};

constexpr OwnedFlag owned_flags[] = {
    {"--pipeline-stages", "pipeline", [](const auto& o) { return o.pipeline_stages.has_value(); }},
    {"--micro-batches", "pipeline", [](const auto& o) { return o.micro_batches.has_value(); }},
    {"--pipeline-schedule", "pipeline",
     [](const auto& o) { return o.pipeline_schedule != defaults.pipeline_schedule; }},
    {"--cut", "pipeline", [](const auto& o) { return !o.cut.empty(); }},
    {"--zero-stage", "sharded", [](const auto& o) { return o.zero_stage != defaults.zero_stage; }},
};

}  // namespace

void refuse_flags_of_others(const config::Options& options) {
  for (const OwnedFlag& owned : owned_flags) {
    if (options.strategy == owned.owner || !owned.given(options)) continue;
    throw usage_error(
        fmt::format("{} belongs to --strategy {}, not to {}", owned.flag, owned.owner, options.strategy),
        fmt::format("use --strategy {}, or leave {} out", owned.owner, owned.flag));
  }
}

std::string bucket_flags_without_effect(const config::Options& options) {
  const auto* entry = strategy::strategies().find(options.strategy);
  if (entry == nullptr || entry->value->sends_buckets()) return {};
  std::vector<std::string> unused;
  if (options.bucket_mb != defaults.bucket_mb)
    unused.push_back(fmt::format("--bucket-mb {:g}", options.bucket_mb));
  if (!options.overlap) unused.emplace_back("--no-overlap");
  if (options.allreduce != defaults.allreduce) unused.push_back("--allreduce " + options.allreduce);
  if (unused.empty()) return {};
  return fmt::format("{} {} no effect under --strategy {}, which sends no buckets of gradients",
                     join(unused, ", "), unused.size() == 1 ? "has" : "have", options.strategy);
}

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
