#include <hwloc.h>

#include <nlohmann/json.hpp>

#include "backend/cuda_module.hpp"
#include "backend/devices.hpp"
#include "base/build_info.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/machine.hpp"
#include "cli/output.hpp"
#include "config/launch_environment.hpp"

namespace dtrain::cli {

namespace {

using nlohmann::ordered_json;

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

struct Topology {
  int packages = 0;
  int cores = 0;
  int hardware_threads = 0;
  int numa_nodes = 0;
  std::vector<std::string> caches;  // "L2 1.0 MiB x 2"
};

Topology read_topology() {
  Topology found;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return found;
  const std::unique_ptr<hwloc_topology, TopologyDeleter> topology(raw);
  if (hwloc_topology_load(raw) != 0) return found;
  const auto count = [&](hwloc_obj_type_t type) { return std::max(hwloc_get_nbobjs_by_type(raw, type), 0); };
  found.packages = count(HWLOC_OBJ_PACKAGE);
  found.cores = count(HWLOC_OBJ_CORE);
  found.hardware_threads = count(HWLOC_OBJ_PU);
  found.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  const std::pair<hwloc_obj_type_t, const char*> levels[] = {
      {HWLOC_OBJ_L1CACHE, "L1"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}};
  for (const auto& [type, name] : levels) {
    const hwloc_obj_t first = hwloc_get_obj_by_type(raw, type, 0);
    if (first == nullptr) continue;
    found.caches.push_back(fmt::format(
        "{} {} x {}", name, format_bytes(static_cast<double>(first->attr->cache.size)), count(type)));
  }
  return found;
}

// What `--device auto` takes here and why; an error is part of the answer.
struct Choice {
  std::string device;
  std::string reason;
  config::Inventory inventory;
};

Choice choose_device() {
  try {
    const auto inventory = backend::find_devices("auto");
    return {inventory.device, inventory.device_reason, inventory};
  } catch (const Error& error) {
    return {"none", fmt::format("{}: {}", error.what(), error.advice()), {}};
  }
}

std::string describe_launch() {
  try {
    const auto launch = config::read_launch_environment(config::process_environment(), {});
    return launch.source == "none"
               ? "none"
               : fmt::format("{}, rank {} of {}", launch.source, launch.rank, launch.world);
  } catch (const Error& error) {
    return fmt::format("unusable: {}: {}", error.what(), error.advice());
  }
}

std::vector<std::string> launch_notes() {
  try {
    return config::read_launch_environment(config::process_environment(), {}).notes;
  } catch (const Error&) {
    return {};
  }
}

ordered_json describe(const backend::DeviceInfo& device) {
  ordered_json peak;
  for (const char* name : {"fp32", "tf32", "bf16", "fp16"}) {
    peak[name] = device.peak.at(config::parse_precision(name)) / 1e9;
  }
  return {{"index", device.index},
          {"name", device.name},
          {"architecture", device.architecture},
          {"memory_bytes", device.memory},
          {"free_memory_bytes", device.free_memory},
          {"peak_gflops", peak},
          {"memory_bytes_per_second", device.bytes_per_second},
          {"unusable", device.unusable}};
}

ordered_json describe(const config::DeviceCondition& condition) {
  return {{"device", condition.device},
          {"clock_mhz", condition.clock_mhz},
          {"highest_clock_mhz", condition.highest_clock_mhz},
          {"celsius", condition.celsius},
          {"watts", condition.watts},
          {"watts_limit", condition.watts_limit},
          {"slowed_by", condition.slowed_by},
          {"other_processes", condition.other_processes},
          {"other_bytes", condition.other_bytes}};
}

// What is there of a backend, and why it cannot be used where it cannot.
ordered_json describe(const std::string& name, const backend::Backend& backend) {
  ordered_json info = {{"name", name}, {"problem", ""}, {"advice", ""}, {"driver", ""}};
  info["libraries"] = info["devices"] = info["conditions"] = ordered_json::array();
  try {
    info["libraries"] = backend.libraries();
    info["driver"] = backend.driver();
    for (const auto& device : backend.devices()) info["devices"].push_back(describe(device));
    for (const auto& condition : backend.conditions()) info["conditions"].push_back(describe(condition));
  } catch (const Error& error) {
    info["problem"] = error.what();
    info["advice"] = error.advice();
  }
  return info;
}

std::vector<backend::DeviceInfo> devices_of(const std::string& name) {
  if (backend::backends().find(name) == nullptr) return {};
  return backend::backend_for(name)->devices();
}

ordered_json collect(const backend::BackendConfig& config) {
  const BuildInfo build = build_info();
  const Choice choice = choose_device();
  ordered_json info;
  info["build"] = {{"version", build.version},
                   {"commit", build.commit},
                   {"compiler", build.compiler},
                   {"build_type", build.build_type},
                   {"sanitizers", build.sanitizers}};
  info["device"] = {{"choice", choice.device}, {"reason", choice.reason}};

  info["backends"] = ordered_json::array();
  for (const auto& entry : backend::backends().entries()) {
    info["backends"].push_back(describe(entry.name, *backend::backend_for(entry.name, config)));
  }
  const auto& module = backend::cuda_module();
  info["cuda_module"] = {{"file", module.file.string()}, {"loaded", module.table != nullptr}};

  const auto machine = describe_machine(devices_of(choice.device));
  const Topology topology = read_topology();
  info["machine"] = {
      {"key", machine.key},
      {"cpu", machine.cpu},
      {"packages", topology.packages},
      {"cores", topology.cores},
      {"hardware_threads", topology.hardware_threads},
      {"numa_nodes", topology.numa_nodes},
      {"caches", topology.caches},
      {"cores_for_replicas", choice.inventory.cores},
      {"cpu_quota", choice.inventory.cpu_quota > 0.0 ? ordered_json(choice.inventory.cpu_quota) : nullptr},
      {"memory_bytes", machine.memory},
      {"free_memory_bytes", choice.inventory.free_memory}};
  info["launcher"] = {{"found", describe_launch()}, {"notes", launch_notes()}};
  info["environment"] = ordered_json::object();
  for (const auto& [name, value] : config::recorded_environment()) info["environment"][name] = value;
  return info;
}

std::string text_of(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& part : value) parts.push_back(text_of(part));
  return join(parts, ", ");
}

std::string peaks(const ordered_json& device) {
  std::vector<std::string> known;
  for (const auto& [precision, gflops] : device["peak_gflops"].items()) {
    if (gflops.get<double>() > 0.0) {
      known.push_back(fmt::format("{} {:.0f}", precision, gflops.get<double>()));
    }
  }
  return known.empty() ? "peak not known" : "peak GFLOP/s: " + join(known, ", ");
}

std::string device_text(const ordered_json& device) {
  std::string text = fmt::format("{}: {}", text_of(device["index"]), text_of(device["name"]));
  if (const auto unusable = text_of(device["unusable"]); !unusable.empty()) {
    return fmt::format("{}: cannot be used: {}", text, unusable);
  }
  if (const auto architecture = text_of(device["architecture"]); !architecture.empty()) {
    text += fmt::format(" ({}), {} of {} free", architecture,
                        format_bytes(device["free_memory_bytes"].get<double>()),
                        format_bytes(device["memory_bytes"].get<double>()));
  }
  text += ", " + peaks(device);
  const double bandwidth = device["memory_bytes_per_second"].get<double>();
  return bandwidth > 0.0 ? text + fmt::format(", memory {:.0f} GB/s", bandwidth / 1e9) : text;
}

std::string condition_text(const ordered_json& c) {
  std::string text =
      fmt::format("{} now: {:.0f} of {:.0f} MHz, {:.0f} °C, {:.0f} of {:.0f} W", text_of(c["device"]),
                  c["clock_mhz"].get<double>(), c["highest_clock_mhz"].get<double>(),
                  c["celsius"].get<double>(), c["watts"].get<double>(), c["watts_limit"].get<double>());
  if (!c["slowed_by"].empty()) text += ", slowed by " + text_of(c["slowed_by"]);
  if (c["other_processes"] != 0) text += fmt::format(", other processes: {}", text_of(c["other_processes"]));
  return text;
}

template <class Line>
void add_backend(const Line& line, const ordered_json& backend) {
  const std::string name = text_of(backend["name"]);
  const std::string libraries = text_of(backend["libraries"]);
  const std::string driver = text_of(backend["driver"]);
  line("backend", name + (libraries.empty() ? "" : ": " + libraries));
  if (!driver.empty()) line("", "driver " + driver);
  for (const auto& device : backend["devices"]) line("", name + " " + device_text(device));
  for (const auto& condition : backend["conditions"]) line("", name + " " + condition_text(condition));
  if (const auto problem = text_of(backend["problem"]); !problem.empty()) {
    line("", "cannot be used: " + problem);
    line("", "-> " + text_of(backend["advice"]));
  }
}

std::string render(const ordered_json& info) {
  std::string text;
  const auto line = [&](const std::string& label, const std::string& value) {
    text += fmt::format("{:<14}{}\n", label, value);
  };
  const auto& build = info["build"];
  line("dtrain", fmt::format("{} ({}), {}, {}", text_of(build["version"]), text_of(build["commit"]),
                             text_of(build["compiler"]), text_of(build["build_type"])));
  line("device", fmt::format("{}: {}", text_of(info["device"]["choice"]), text_of(info["device"]["reason"])));
  for (const auto& backend : info["backends"]) add_backend(line, backend);
  const auto& machine = info["machine"];
  line("processor", text_of(machine["cpu"]));
  line("topology", fmt::format("{} package(s), {} core(s), {} hardware thread(s), {} NUMA node(s)",
                               text_of(machine["packages"]), text_of(machine["cores"]),
                               text_of(machine["hardware_threads"]), text_of(machine["numa_nodes"])));
  line("caches", text_of(machine["caches"]));
  line("replicas on", "processors " + text_of(machine["cores_for_replicas"]));
  line("CPU quota", machine["cpu_quota"].is_null() ? "none" : text_of(machine["cpu_quota"]) + " cores");
  line("memory", fmt::format("{}, {} free", format_bytes(machine["memory_bytes"].get<double>()),
                             format_bytes(machine["free_memory_bytes"].get<double>())));
  line("machine key", text_of(machine["key"]));
  line("launcher", text_of(info["launcher"]["found"]));
  for (const auto& note : info["launcher"]["notes"]) line("", text_of(note));
  std::string label = "environment";
  for (const auto& [name, value] : info["environment"].items()) {
    line(std::exchange(label, ""), name + "=" + text_of(value));
  }
  return text;
}

class InfoCommand final : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string summary() const override {
    return "Shows devices, libraries, topology, what the environment says and why it counts";
  }
  void declare(Flags& flags) override {
    flags.group("Devices");
    flags.path("--pjrt-plugin", "FILE", "PJRT plugin whose devices are shown as those of tpu [libtpu]",
               pjrt_plugin_);
    flags.group("Output");
    flags.toggle("--json", "As JSON", json_);
    flags.toggle("--machine-key", "Only this machine's key, e.g. to name a cache of baselines", machine_key_);
  }
  ExitCode run(const std::string&) override {
    if (machine_key_) {
      print_out(describe_machine(devices_of(choose_device().device)).key + "\n");
      return ExitCode::fine;
    }
    const ordered_json info = collect({.pjrt_plugin = pjrt_plugin_});
    print_out(json_ ? info.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n" : render(info));
    return ExitCode::fine;
  }

 private:
  std::string pjrt_plugin_;
  bool json_ = false;
  bool machine_key_ = false;
};

}  // namespace

std::unique_ptr<Command> make_info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace dtrain::cli
