#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/build_info.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/allreduce_ranks.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/training_flags.hpp"
#include "comm/compressor.hpp"
#include "stats/interval.hpp"

namespace dtrain::cli {

namespace {

constexpr std::size_t largest_size = std::size_t{1} << 34U;

// "4KB..64MB", doubling from the first to at most the last, or "1KB,2MB".
std::vector<std::size_t> parse_sizes(const std::string& text) {
  const std::string flag = "--sizes";
  std::vector<std::size_t> sizes;
  const auto range = text.find("..");
  if (range == std::string::npos) {
    for (const auto& part : split(text, ',')) sizes.push_back(config::parse_size(part, flag));
  } else {
    const std::size_t last = config::parse_size(text.substr(range + 2), flag);
    std::size_t size = config::parse_size(text.substr(0, range), flag);
    if (size > last) {
      throw usage_error(fmt::format("{}: '{}' ends before it begins", flag, text), "write 4KB..64MB");
    }
    for (; size <= last; size *= 2) sizes.push_back(size);
  }
  for (std::size_t& size : sizes) {
    if (size > largest_size) {
      throw usage_error(fmt::format("{}: '{}' is more than {} bytes", flag, text, largest_size),
                        "give smaller sizes");
    }
    size = (size + sizeof(float) - 1) / sizeof(float) * sizeof(float);
  }
  return sizes;
}

std::vector<std::size_t> default_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t size = kib; size <= 64 * mib; size *= 4) sizes.push_back(size);
  return sizes;
}

double bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

std::string render_point(const comm::SweepPoint& point, const AllreduceResult& result) {
  const stats::Interval us = stats::scaled(stats::bootstrap_median(point.seconds), 1e6);
  const double bandwidth = static_cast<double>(point.bytes) / us.median / 1e3;
  const std::string bus =
      result.ranks == 1 ? "n/a" : fmt::format("{:.3f}", bandwidth * bus_factor(result.ranks));
  return fmt::format("{:>11}{:>8}{:>12.1f}{:>22}{:>12.3f}{:>12}  {:<6}  {}\n", point.bytes,
                     point.seconds.size(), us.median, fmt::format("{:.1f} .. {:.1f}", us.low, us.high),
                     bandwidth, bus, point.wrong.empty() ? "ok" : "WRONG", result.algorithm(point.bytes));
}

std::string render(const AllreduceResult& result) {
  std::string text = fmt::format("all-reduce of float32 over {} ranks by {}{}\n", result.ranks, result.comm,
                                 result.compress == "none" ? "" : ", compressed: " + result.compress);
  if (!result.exact) text += "values: the same on all ranks; sums are not exact where they are compressed\n";
  text += fmt::format("{:>11}{:>8}{:>12}{:>22}{:>12}{:>12}  {:<6}  {}\n", "bytes", "times", "median us",
                      "95 % interval us", "algbw GB/s", "busbw GB/s", "values", "how");
  for (const auto& point : result.points) text += render_point(point, result);
  return text;
}

std::string render_json(const AllreduceResult& result, const std::string& command_line) {
  nlohmann::ordered_json json{
      {"schema", "dtrain.allreduce/1"}, {"command", command_line},     {"version", build_info().version},
      {"commit", build_info().commit},  {"communicator", result.comm}, {"compress", result.compress},
      {"workers", result.workers},      {"ranks", result.ranks},       {"element", "float32"}};
  json["sizes"] = nlohmann::ordered_json::array();
  for (const auto& point : result.points) {
    const stats::Interval us = stats::scaled(stats::bootstrap_median(point.seconds), 1e6);
    const double bandwidth = static_cast<double>(point.bytes) / us.median / 1e3;
    nlohmann::ordered_json row{{"bytes", point.bytes},
                               {"repetitions", point.seconds.size()},
                               {"time_us", {{"median", us.median}, {"low", us.low}, {"high", us.high}}},
                               {"algbw_gb_per_s", bandwidth}};
    row["busbw_gb_per_s"] = result.ranks == 1 ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json(bandwidth * bus_factor(result.ranks));
    row["algorithm"] = result.algorithm(point.bytes);
    row["values_ok"] = point.wrong.empty();
    json["sizes"].push_back(std::move(row));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

class AllreduceCommand final : public Command {
 public:
  std::string name() const override { return "allreduce"; }
  std::string summary() const override {
    return "Times all-reduces by size and communicator, and checks their values";
  }
  std::string footer() const override {
    return "algbw is bytes / time; busbw is algbw x 2(n-1)/n, what each of n ranks must at least send and "
           "receive.\nThe slowest rank's time counts. A wrong value is exit 5.\n\nExamples:\n"
           "  dtrain allreduce --replicas 2\n"
           "  dtrain allreduce --replicas 4 --sizes 4KB..64MB --json allreduce.json\n"
           "  mpirun -np 2 dtrain allreduce --comm mpi";
  }

  void declare(Flags& flags) override {
    flags.group("All-reduce");
    flags.value("--gpus,--replicas", "N", "Ranks in this process [2; as a worker among others, 1]",
                [this](const std::string& text) {
                  config_.replicas =
                      config::parse_integer(text, "--gpus/--replicas", 1, config::max_replicas);
                });
    std::vector<std::string> names{"auto"};
    for (const auto& name : comm::communicators().names()) names.push_back(name);
    flags.choice("--comm", names, "Who carries the data [auto]", [this](const std::string& text) {
      config_.comm = text == "auto" ? text : comm::communicators().at(text).name;
    });
    flags.value("--allreduce", "NAME", "The algorithm, where the communicator has several [auto]",
                [this](const std::string& text) { config_.algorithm = text; });
    flags.value(
        "--compress", "none|fp16|bf16|topk:R|powersgd:R", "Send fewer bytes [none]",
        [this](const std::string& text) { config_.compress = comm::parse_compression(text, "--compress"); });
    flags.value("--sizes", "LIST|RANGE", "Bytes: 1KB,2MB, or 4KB..64MB doubling [1 KiB to 64 MiB, times 4]",
                [this](const std::string& text) { config_.sweep.sizes = parse_sizes(text); });
    flags.value("--min-time", "TIME", "Measured time a size [300ms]", [this](const std::string& text) {
      config_.sweep.time_per_size = config::parse_duration(text, "--min-time");
    });
    flags.value("--timeout", "TIME", "Longest wait for another rank [20s]", [this](const std::string& text) {
      config_.timeout = config::parse_duration(text, "--timeout");
    });
    declare_cluster_flags(flags, config_.job);
    flags.group("Output");
    flags.path("--json", "FILE", "Write the figures as JSON, too", json_);
    flags.toggle("--quiet", "No progress, only warnings and results", quiet_);
  }

  ExitCode run(const std::string& command_line) override {
    set_up_log(quiet_);
    if (config_.sweep.sizes.empty()) config_.sweep.sizes = default_sizes();
    if (!json_.empty()) {
      const auto parent = std::filesystem::path(json_).parent_path();
      require_writable_directory(parent.empty() ? "." : parent);
    }
    const AllreduceResult result = measure_allreduce(config_);
    if (result.chief) {
      print_out(render(result));
      if (!json_.empty()) write_atomically(json_, render_json(result, command_line));
    }
    for (const auto& point : result.points) {
      if (point.wrong.empty()) continue;
      throw run_error(fmt::format("an all-reduce of {} bytes by {} gave a wrong value: {}", point.bytes,
                                  result.comm, point.wrong),
                      "do not train with this communicator here; try another --comm or --allreduce");
    }
    return ExitCode::fine;
  }

 private:
  AllreduceConfig config_;
  std::string json_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_allreduce_command() { return std::make_unique<AllreduceCommand>(); }

}  // namespace dtrain::cli
