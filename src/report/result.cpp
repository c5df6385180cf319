#include "report/result.hpp"

#include <fstream>
#include <iterator>

#include "report/json_text.hpp"
#include "report/result_fields.hpp"

namespace dtrain::report {

namespace fs = std::filesystem;

namespace {

std::string why_no_budget(const measure::RunSamples& run) {
  if (!run.failure.empty()) return "the run failed: " + run.failure;
  if (run.plan.base != config::RunPlan::Base::none) return "a base loses nothing against itself";
  return run.rounds.empty() ? "no round was measured" : "there is no base to hold it against";
}

template <class A, class T>
void fact_fields(A& a, T& r) {
  a.value("created", r.created);
  a.value("command", r.command);
  a.object("build", [&](auto& build) { build_fields(build, r); });
  a.object("machine", [&](auto& machine) { machine_fields(machine, r.machine); });
  a.object(
      "device",
      [&](auto& device) {
        device.value("asked", r.options.device, Need::optional);
        device.value("reason", r.device_reason, Need::optional);
      },
      Need::optional);
  if (!A::saving || !r.cluster.tasks.empty()) {
    a.object(
        "cluster", [&](auto& cluster) { cluster_fields(cluster, r.cluster); }, Need::optional);
  }
  a.object("config", [&](auto& config) { config_fields(config, r); });
  a.object("dataset", [&](auto& dataset) {
    dataset.value("name", r.dataset.name);
    dataset.value("images", r.dataset.images);
    dataset.value("checksum", r.dataset.checksum);
  });
  a.object("model", [&](auto& model) {
    model.value("name", r.model.name);
    if (!A::saving || !r.model.fingerprint.empty())
      model.value("fingerprint", r.model.fingerprint, Need::optional);
    model.value("parameters", r.model.parameters);
    model.value("training_flops_per_image", r.model.training_flops_per_image, Need::optional);
    model.value("peak_flops_per_replica", r.model.peak_flops_per_replica, Need::optional);
    model.value("training_bytes_per_image", r.model.training_bytes_per_image, Need::optional);
    model.value("update_bytes", r.model.update_bytes, Need::optional);
    model.value("peak_bytes_per_replica", r.model.peak_bytes_per_replica, Need::optional);
    model.value("batch_statistics", r.model.batch_statistics, Need::optional);
  });
}

Json environment_of(const Result& result) {
  Json environment = Json::object();
  for (const auto& [name, value] : result.environment) environment[name] = value;
  return environment;
}

Json parse(const std::string& text, const std::string& file) {
  const std::string advice = "give a result.json that dtrain wrote, or measure again";
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw data_error(file + ": is empty", advice);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const bool cut = error.byte >= text.size();
    throw data_error(fmt::format("{}: {} at byte {} of {}", file,
                                 cut ? "is not JSON: it ends too early (truncated?)" : "is not JSON",
                                 std::min(error.byte, text.size()), text.size()),
                     advice);
  } catch (const Json::exception&) {
    throw data_error(file + ": is not JSON: holds a number out of range", advice);
  }
}

std::string read_text(const fs::path& path) {
  const std::string advice = "give a result file, or the folder that holds a result.json";
  std::error_code error;
  if (!fs::exists(path, error)) throw data_error(path.string() + ": no such file", advice);
  if (fs::is_directory(path, error)) throw data_error(path.string() + ": is a folder, not a file", advice);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw data_error(path.string() + ": cannot be read", advice);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void require_schema(const Loader& loader) {
  const Json* schema = loader.find("schema", Need::required);
  if (*schema == Result::schema) return;
  loader.fail("schema", Loader::wrong_type(*schema, fmt::format("\"{}\"", Result::schema)));
}

void load(Loader& a, Result& result) {
  a.value("complete", result.samples.complete);
  fact_fields(a, result);
  if (const Json* environment = a.find("environment", Need::optional)) {
    if (!environment->is_object()) a.fail("environment", Loader::wrong_type(*environment, "an object"));
    for (const auto& [name, value] : environment->items()) {
      if (!value.is_string()) a.fail("environment." + name, Loader::wrong_type(value, "text"));
      result.environment.emplace_back(name, value.get<std::string>());
    }
  }
  a.list("runs", 0, [&](Loader& entry, std::size_t) {
    auto& run = result.samples.runs.emplace_back();
    auto& summary = result.summary.runs.emplace_back();
    plan_fields(entry, run.plan);
    summary_fields(entry, summary, {});
    samples_fields(entry, run);
  });
  a.value("peak_process_bytes", result.samples.peak_process_bytes, Need::optional);
  a.value("verdict", result.summary.verdict, Need::optional);
  a.value("warnings", result.warnings, Need::optional);
}

}  // namespace

const stats::RunSummary& summary_of(const Result& result, std::size_t run) {
  static const stats::RunSummary none;
  return run < result.summary.runs.size() ? result.summary.runs[run] : none;
}

std::vector<std::string> all_warnings(const Result& result) {
  std::vector<std::string> warnings;
  for (const auto* list : {&result.warnings, &result.summary.warnings}) {
    for (const auto& warning : *list) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
    }
  }
  return warnings;
}

Json to_node(const Result& result) {
  Json root = Json::object();
  Saver saver(root);
  saver.value("schema", std::string(Result::schema));
  saver.value("complete", result.samples.complete);
  fact_fields(saver, result);
  root["environment"] = environment_of(result);
  saver.list("runs", result.samples.runs.size(), [&](Saver& entry, std::size_t i) {
    const auto& run = result.samples.runs[i];
    plan_fields(entry, run.plan);
    summary_fields(entry, summary_of(result, i), why_no_budget(run));
    samples_fields(entry, run);
  });
  saver.value("peak_process_bytes", result.samples.peak_process_bytes);
  saver.value("verdict", result.summary.verdict);
  saver.value("warnings", all_warnings(result));
  return root;
}

std::map<std::string, std::string> config_values(const Result& result) {
  std::map<std::string, std::string> values;
  const Json root = to_node(result);
  for (const auto& [key, value] : root.at("config").items()) values[key] = value.dump();
  return values;
}

std::string to_json(const Result& result) { return to_text(to_node(result)); }

namespace {

void require_own_names(const Result& result, const Loader& loader) {
  const auto& runs = result.samples.runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (runs[i].plan.id != runs[j].plan.id) continue;
      loader.fail(fmt::format("runs[{}].id", i),
                  fmt::format("is \"{}\", as runs[{}].id is", runs[i].plan.id, j));
    }
  }
}

}  // namespace

Result read_result(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "result.json" : path;
  const std::string name = file.string();
  const Json root = parse(read_text(file), name);
  Loader loader(root, name, "");
  require_schema(loader);
  Result result;
  load(loader, result);
  require_own_names(result, loader);
  return result;
}

}  // namespace dtrain::report
