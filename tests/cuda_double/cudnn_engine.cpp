#include <fmt/format.h>

#include "cudnn_descriptor.hpp"
#include "cudnn_handle.hpp"
#include "program.hpp"

// The engines that the double offers for every graph. They differ in their notes, knobs and workspaces, so
// that filters and limits have something to choose from; an engine with tensor cores rounds fp32 factors to
// TF32.
namespace cuda_double {
namespace {

struct Knob {
  cudnnBackendKnobType_t type;
  std::int64_t value;
  std::int64_t most;
};

struct Engine {
  std::int64_t index;
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::vector<cudnnBackendBehaviorNote_t> behaviour;
  std::vector<Knob> knobs;
  std::int64_t workspace_bytes;
};

constexpr std::int64_t kib = 1024;

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {0,
       {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
       {CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API},
       {{CUDNN_KNOB_TYPE_TILE_SIZE, 2, 7}, {CUDNN_KNOB_TYPE_STAGES, 3, 5}},
       96 * kib},
      {1, {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}, {{CUDNN_KNOB_TYPE_KERNEL_CFG, 7, 31}}, 16 * kib},
      {2, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}, {{CUDNN_KNOB_TYPE_SPLIT_K_SLC, 4, 16}}, 4 * kib},
      {3, {}, {}, {}, 0},
  };
  return all;
}

const Engine& engine_at(std::int64_t index) {
  if (index < 0 || index >= static_cast<std::int64_t>(engines().size())) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("there is no engine {}", index)};
  }
  return engines()[static_cast<std::size_t>(index)];
}

bool takes_fp32(const Program& program) {
  for (const auto& [uid, tensor] : program.tensors) {
    if (!tensor.is_virtual && !tensor.by_value && tensor.type == CUDNN_DATA_FLOAT && tensor.elements() > 1)
      return true;
  }
  return false;
}

std::shared_ptr<Content> made(cudnnBackendDescriptorType_t type) {
  auto content = std::make_shared<Content>();
  content->type = type;
  return content;
}

std::shared_ptr<const Content> knob_info(const Knob& knob) {
  auto info = made(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
  info->put(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{knob.type});
  info->put(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, std::vector<std::int64_t>{0});
  info->put(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, std::vector{knob.most});
  info->put(CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, std::vector<std::int64_t>{1});
  info->final = true;
  return info;
}

std::shared_ptr<const Content> knob_choice(const Knob& knob) {
  auto choice = made(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  choice->put(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{knob.type});
  choice->put(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, std::vector{knob.value});
  choice->final = true;
  return choice;
}

std::shared_ptr<const Content> configuration_of(const Content& heuristics, const Engine& engine) {
  auto content = made(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto& graph = heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).descriptors.at(0);
  content->put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
  content->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector{engine.index});
  finalize_engine(*content);
  content->final = true;
  auto configuration = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration->put(CUDNN_ATTR_ENGINECFG_ENGINE, {std::shared_ptr<const Content>(content)});
  std::vector<std::shared_ptr<const Content>> choices;
  for (const Knob& knob : engine.knobs) choices.push_back(knob_choice(knob));
  configuration->put(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  finalize_configuration(*configuration);
  configuration->final = true;
  return configuration;
}

void check_choice(const Engine& engine, const Content& choice) {
  const auto type = choice.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
  const auto value = choice.value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  for (const Knob& knob : engine.knobs) {
    if (knob.type == type && value >= 0 && value <= knob.most) return;
  }
  throw Refusal{CUDNN_STATUS_BAD_PARAM,
                fmt::format("engine {} takes no knob {} of {}", engine.index, static_cast<int>(type), value)};
}

}  // namespace

void finalize_engine(Content& content) {
  const Engine& engine = engine_at(content.value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  content.program = content.descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).program;
  auto notes = engine.notes;
  const bool tensor_cores = std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
  if (tensor_cores && takes_fp32(*content.program)) notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  content.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  content.put(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, engine.behaviour);
  std::vector<std::shared_ptr<const Content>> knobs;
  for (const Knob& knob : engine.knobs) knobs.push_back(knob_info(knob));
  content.put(CUDNN_ATTR_ENGINE_KNOB_INFO, knobs);
}

void finalize_configuration(Content& content) {
  const Content& of = content.descriptor(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Engine& engine = engine_at(of.value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  content.program = of.program;
  if (content.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    for (const auto& choice : content.attributes.at(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).descriptors) {
      check_choice(engine, *choice);
    }
  }
  content.put(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::vector{engine.workspace_bytes});
}

void finalize_heuristics(Content& content) {
  const auto mode = content.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  std::vector<std::shared_ptr<const Content>> results;
  for (const Engine& engine : engines()) {
    const bool is_fallback = engine.index == 3;
    if (is_fallback == (mode == CUDNN_HEUR_MODE_FALLBACK))
      results.push_back(configuration_of(content, engine));
  }
  content.put(CUDNN_ATTR_ENGINEHEUR_RESULTS, results);
}

void finalize_plan(Content& content) {
  const bool described = content.has(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  if (content.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) {
    (void)cudnn_handle_of(content.value<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
  } else if (!described) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM, "a plan needs a handle or device properties"};
  }
  const Content& configuration = content.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  content.program = configuration.program;
  content.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
              std::vector{configuration.value<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)});
}

}  // namespace cuda_double
