#include "backend/devices.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "backend/cpu/topology.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend {

namespace {

constexpr const char* cpu_on_purpose = "measure CPU replicas on purpose with --device cpu";

config::Inventory cpu_inventory(std::string reason) {
  config::Inventory inventory;
  inventory.device = "cpu";
  inventory.device_reason = std::move(reason);
  inventory.cores = cpu::usable_cores();
  inventory.cpu_quota = cpu::cpu_quota();
  inventory.free_memory = cpu::available_memory();
  return inventory;
}

// What the environment has to do with it; empty where nothing.
std::string visibility_remark() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return {};
  if (*visible == '\0') return "; CUDA_VISIBLE_DEVICES is empty, which hides every GPU";
  return fmt::format("; CUDA_VISIBLE_DEVICES={} hides GPUs", visible);
}

std::string advice_of(const GpuFindings& gpus) {
  return gpus.advice.empty() ? std::string(cpu_on_purpose)
                             : fmt::format("{}; or {}", gpus.advice, cpu_on_purpose);
}

std::vector<std::string> usable_indices(const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> indices;
  for (const auto& device : devices) {
    if (device.unusable.empty()) indices.push_back(std::to_string(device.index));
  }
  return indices;
}

// Replicas take GPUs by number, so that one which cannot be used must not be among them.
void require_usable(const std::vector<DeviceInfo>& devices) {
  for (const auto& device : devices) {
    if (device.unusable.empty()) continue;
    const auto others = usable_indices(devices);
    throw environment_error(
        fmt::format("GPU {} ({}) cannot be used: {}", device.index, device.name, device.unusable),
        others.empty() ? cpu_on_purpose
                       : fmt::format("leave it out: CUDA_VISIBLE_DEVICES={}", join(others, ",")));
  }
}

config::Inventory gpu_inventory(const std::vector<DeviceInfo>& devices) {
  require_usable(devices);
  std::set<std::string> names;
  for (const auto& device : devices) names.insert(device.name);
  config::Inventory inventory = cpu_inventory("");
  inventory.device = "cuda";
  inventory.gpus = static_cast<int>(devices.size());
  inventory.device_reason = fmt::format("found {} GPU{}: {}", devices.size(), devices.size() == 1 ? "" : "s",
                                        join(std::vector(names.begin(), names.end()), ", "));
  if (names.size() > 1) inventory.device_reason += "; they differ, so that N of them are not N times one";
  inventory.free_memory = std::ranges::min_element(devices, {}, &DeviceInfo::free_memory)->free_memory;
  return inventory;
}

config::Inventory find_auto(const BackendConfig&) {
  return gpu_present() ? choose_auto(find_gpus()) : choose_auto({});
}

config::Inventory find_cpu(const BackendConfig&) { return cpu_inventory("asked for with --device cpu"); }

config::Inventory find_cuda(const BackendConfig&) { return choose_cuda(find_gpus()); }

// Devices of XLA's CPU plugin are cores, of which a quota of time may leave fewer.
int usable_devices(const std::vector<DeviceInfo>& devices, const config::Inventory& machine) {
  const auto count = static_cast<int>(devices.size());
  const bool cores = devices.front().architecture.empty();
  if (!cores || machine.cpu_quota <= 0.0) return count;
  return std::clamp(static_cast<int>(machine.cpu_quota), 1, count);
}

config::Inventory find_tpu(const BackendConfig& config) {
  const auto backend = backend_for("tpu", config);
  const auto devices = backend->devices();
  config::Inventory inventory = cpu_inventory("");
  inventory.device = "tpu";
  inventory.gpus = usable_devices(devices, inventory);
  inventory.device_reason = fmt::format("{} device{} of {}", inventory.gpus, inventory.gpus == 1 ? "" : "s",
                                        join(backend->libraries(), ", "));
  inventory.free_memory = std::ranges::min_element(devices, {}, &DeviceInfo::free_memory)->free_memory;
  return inventory;
}

using Finder = config::Inventory (*)(const BackendConfig&);

const Registry<Finder>& device_choices() {
  static const auto table = [] {
    Registry<Finder> choices("device");
    choices.add("auto", "GPUs where there are any, else CPU replicas", &find_auto);
    choices.add("cpu", "CPU replicas", &find_cpu);
    choices.add("cuda", "GPUs only: never falls back", &find_cuda);
    choices.add("tpu", "devices of a PJRT plugin, TPUs unless --pjrt-plugin says otherwise", &find_tpu);
    return choices;
  }();
  return table;
}

}  // namespace

// A driver without its device file, or the other way round, is still a GPU that somebody expects to be used.
// The last one is where Windows lends its driver to a Linux guest.
bool gpu_present() {
  std::error_code error;
  return std::ranges::any_of(
      std::array{"/dev/nvidiactl", "/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libcuda.so.1"},
      [&](const char* file) { return std::filesystem::exists(file, error); });
}

GpuFindings find_gpus() {
  GpuFindings found;
  found.present = gpu_present();
  try {
    found.devices = backend_for("cuda")->devices();
  } catch (const Error& error) {
    found.problem = error.what();
    found.advice = error.advice();
  }
  return found;
}

config::Inventory choose_auto(const GpuFindings& gpus) {
  if (!gpus.devices.empty()) return gpu_inventory(gpus.devices);
  if (!gpus.present) return cpu_inventory("no GPU found: CPU replicas");
  throw environment_error(
      fmt::format("a GPU is present, but cannot be used: {}{}", gpus.problem, visibility_remark()),
      advice_of(gpus));
}

config::Inventory choose_cuda(const GpuFindings& gpus) {
  if (!gpus.devices.empty()) return gpu_inventory(gpus.devices);
  throw environment_error(fmt::format("--device cuda: found 0 GPUs: {}{}", gpus.problem, visibility_remark()),
                          advice_of(gpus));
}

std::vector<std::string> device_names() { return device_choices().names(); }

config::Inventory find_devices(const std::string& device, const BackendConfig& config) {
  return device_choices().at(device).value(config);
}

}  // namespace dtrain::backend
