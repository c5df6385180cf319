#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/build_info.hpp"
#include "config/options.hpp"
#include "measure/samples.hpp"
#include "stats/summary.hpp"

namespace dtrain::report {

struct Machine {
  std::string key;  // same machine, same key: processor, cores, memory and devices
  std::string cpu;
  int cores = 0;
  std::size_t memory = 0;
  std::vector<std::string> devices;
  std::string driver;  // empty without one
};

struct DatasetInfo {
  std::string name;
  std::size_t images = 0;
  std::string checksum;
};

// The processes that worked together; no tasks where there was one.
struct ClusterInfo {
  struct Task {
    std::string role;
    int index = 0;
    std::string address;
    std::string host;
    double joined_seconds = 0.0;  // after the chief began to listen
  };
  std::string launcher;
  std::vector<Task> tasks;  // by rank
};

struct ModelInfo {
  std::string name;
  // Of what it computes, whatever its name: model::fingerprint. Empty: not recorded.
  std::string fingerprint = {};
  std::size_t parameters = 0;
  double training_flops_per_image = 0.0;
  double peak_flops_per_replica = 0.0;  // a second, at the precision used; 0 = unknown
  double training_bytes_per_image = 0.0;
  double update_bytes = 0.0;            // a step and replica
  double peak_bytes_per_replica = 0.0;  // a second; 0 = unknown
  bool batch_statistics = false;
};

// The whole of a result file, `dtrain.result/1`: what was asked, where it ran, what was measured and what
// follows.
struct Result {
  static constexpr const char* schema = "dtrain.result/1";

  std::string created;  // UTC, ISO 8601
  std::string command;  // a line that runs it again
  BuildInfo build;
  std::vector<std::string> libraries;
  Machine machine;
  std::vector<std::pair<std::string, std::string>> environment;  // allow-listed
  config::Options options;                                       // as used: defaults filled in
  std::string device;                                            // "cpu" or "cuda"
  std::string device_reason;
  config::Scaling scaling = config::Scaling::weak;
  ClusterInfo cluster;
  DatasetInfo dataset;
  ModelInfo model;
  measure::Samples samples;
  stats::Summary summary;
  std::vector<std::string> warnings;
};

// Empty where the samples were not summarised.
const stats::RunSummary& summary_of(const Result& result, std::size_t run);

// The command's warnings and those that the samples gave rise to, each once.
std::vector<std::string> all_warnings(const Result& result);

// Every option as it was used, by its key in the file, as JSON text.
std::map<std::string, std::string> config_values(const Result& result);

// Strict JSON, no NaN: null and a reason. results/schema.json describes it.
std::string to_json(const Result& result);

// `path` is a result file, or a folder that holds a result.json. A data error names file and key. The summary
// is the file's own; whoever judges works it out again with stats::summarise.
Result read_result(const std::filesystem::path& path);

}  // namespace dtrain::report
