#include "backend/cuda/nvml.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace dtrain::backend::cuda {

namespace {

// The library's own binary interface, as far as it is used here.
using Status = int;
using Device = void*;
constexpr Status success = 0;
constexpr Status buffer_too_small = 7;
constexpr int sm_clock = 1;
constexpr int gpu_temperature = 0;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;  // all ones: not told
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct MemoryInfo {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};

constexpr unsigned long long not_told = ~0ULL;

// Clock event reasons. Resting, clocks that somebody has set, and the needs of a display are left out: none
// of them comes and goes with the load.
constexpr std::pair<unsigned long long, const char*> slowdowns[] = {
    {0x04, "the power limit"},
    {0x08, "a hardware slowdown (heat or power)"},
    {0x10, "a slower GPU of its sync boost group"},
    {0x20, "heat (software limit)"},
    {0x40, "heat (hardware limit)"},
    {0x80, "the power brake of its supply"},
};

struct Close {
  void operator()(void* library) const { ::dlclose(library); }
};

}  // namespace

struct Nvml::Functions {
  std::unique_ptr<void, Close> library;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*find_device)(const char*, Device*) = nullptr;
  Status (*clock)(Device, int, unsigned*) = nullptr;
  Status (*highest_clock)(Device, int, unsigned*) = nullptr;
  Status (*clock_events)(Device, unsigned long long*) = nullptr;
  Status (*temperature)(Device, int, unsigned*) = nullptr;
  Status (*power)(Device, unsigned*) = nullptr;        // mW
  Status (*power_limit)(Device, unsigned*) = nullptr;  // mW
  Status (*memory)(Device, MemoryInfo*) = nullptr;
  Status (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;

  // The first of these names that the library has.
  template <class Function>
  void find(Function& function, std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (function == nullptr) function = reinterpret_cast<Function>(::dlsym(library.get(), name));
    }
  }

  std::vector<ProcessInfo> running(Device device) const {
    std::vector<ProcessInfo> list;
    if (processes == nullptr) return list;
    Status status = buffer_too_small;
    for (unsigned room = 16; status == buffer_too_small && room <= 4096; room *= 4) {
      list.resize(room);
      unsigned count = room;
      status = processes(device, &count, list.data());
      list.resize(std::min(count, room));
    }
    if (status != success) list.clear();
    return list;
  }
};

namespace {

// What such a function tells, times `unit`; 0 where it does not.
double number(Status (*function)(Device, unsigned*), Device device, double unit) {
  unsigned value = 0;
  return function != nullptr && function(device, &value) == success ? unit * value : 0.0;
}

double number(Status (*function)(Device, int, unsigned*), Device device, int which) {
  unsigned value = 0;
  return function != nullptr && function(device, which, &value) == success ? value : 0.0;
}

std::vector<std::string> in_words(unsigned long long events) {
  std::vector<std::string> words;
  for (const auto& [bit, text] : slowdowns) {
    if ((events & bit) != 0) words.emplace_back(text);
  }
  return words;
}

// In a container processes may be numbered as outside, so that this one is not found among them. One of them
// it is all the same, and what the others hold is then not known.
void add_others(DeviceCondition& condition, const std::vector<ProcessInfo>& running) {
  const auto own = static_cast<unsigned>(::getpid());
  const bool found = std::ranges::find(running, own, &ProcessInfo::pid) != running.end();
  condition.other_processes = std::max(static_cast<int>(running.size()) - 1, 0);
  if (!found) return;
  for (const auto& process : running) {
    if (process.pid != own && process.used_bytes != not_told) condition.other_bytes += process.used_bytes;
  }
}

}  // namespace

std::unique_ptr<const Nvml> Nvml::open(const std::string& file) {
  auto functions = std::make_unique<Functions>();
  functions->library.reset(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!functions->library) return nullptr;
  Functions& f = *functions;
  f.find(f.init, {"nvmlInit_v2"});
  f.find(f.shutdown, {"nvmlShutdown"});
  f.find(f.driver_version, {"nvmlSystemGetDriverVersion"});
  f.find(f.find_device, {"nvmlDeviceGetHandleByPciBusId_v2"});
  f.find(f.clock, {"nvmlDeviceGetClockInfo"});
  f.find(f.highest_clock, {"nvmlDeviceGetMaxClockInfo"});
  f.find(f.clock_events,
         {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  f.find(f.temperature, {"nvmlDeviceGetTemperature"});
  f.find(f.power, {"nvmlDeviceGetPowerUsage"});
  f.find(f.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  f.find(f.memory, {"nvmlDeviceGetMemoryInfo"});
  f.find(f.processes, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  if (f.init == nullptr || f.shutdown == nullptr || f.find_device == nullptr || f.init() != success)
    return nullptr;
  return std::unique_ptr<const Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<const Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->shutdown(); }

std::string Nvml::driver_version() const {
  char text[96] = "";
  const bool told =
      functions_->driver_version != nullptr && functions_->driver_version(text, sizeof(text)) == success;
  return told ? text : std::string();
}

std::size_t Nvml::free_memory(const std::string& bus_id) const {
  Device handle = nullptr;
  MemoryInfo info = {};
  const bool told = functions_->find_device(bus_id.c_str(), &handle) == success &&
                    functions_->memory != nullptr && functions_->memory(handle, &info) == success;
  return told ? info.free_bytes : 0;
}

DeviceCondition Nvml::condition(int device, const std::string& bus_id) const {
  const Functions& f = *functions_;
  DeviceCondition condition;
  condition.device = device;
  Device handle = nullptr;
  if (f.find_device(bus_id.c_str(), &handle) != success) return condition;
  condition.clock_mhz = number(f.clock, handle, sm_clock);
  condition.highest_clock_mhz = number(f.highest_clock, handle, sm_clock);
  condition.celsius = number(f.temperature, handle, gpu_temperature);
  condition.watts = number(f.power, handle, 1e-3);
  condition.watts_limit = number(f.power_limit, handle, 1e-3);
  unsigned long long events = 0;
  if (f.clock_events != nullptr && f.clock_events(handle, &events) == success) {
    condition.slowed_by = in_words(events);
  }
  add_others(condition, f.running(handle));
  return condition;
}

}  // namespace dtrain::backend::cuda
