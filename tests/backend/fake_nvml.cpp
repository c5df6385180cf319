// Stands for libnvidia-ml.so.1: GPUs that are all in the state that the environment describes. Declarations
// follow NVML's documented binary interface.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

unsigned long long setting(const char* name, unsigned long long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr int not_supported = 3;
constexpr int not_found = 6;
constexpr int buffer_too_small = 7;
constexpr int driver_not_loaded = 9;

int give(const char* name, unsigned otherwise, unsigned* value) {
  const auto found = setting(name, otherwise);
  if (found == 0) return not_supported;
  *value = static_cast<unsigned>(found);
  return 0;
}

}  // namespace

#define NVML extern "C" __attribute__((visibility("default"))) int

NVML nvmlInit_v2() { return setting("FAKE_NVML_NO_DRIVER", 0) != 0 ? driver_not_loaded : 0; }
NVML nvmlShutdown() { return 0; }
NVML nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.95.05", length);
  return 0;
}
NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int gpu = 0;
  *device = &gpu;
  return std::strcmp(bus_id, "00000000:01:00.0") != 0 ? 0 : not_found;
}
NVML nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  return which == 1 ? give("FAKE_NVML_CLOCK", 1980, mhz) : not_supported;
}
NVML nvmlDeviceGetMaxClockInfo(void*, int which, unsigned* mhz) {
  return which == 1 ? give("FAKE_NVML_MAX_CLOCK", 1980, mhz) : not_supported;
}
NVML nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = setting("FAKE_NVML_REASONS", 1);
  return 0;
}
NVML nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  return give("FAKE_NVML_TEMPERATURE", 41, celsius);
}
NVML nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  return give("FAKE_NVML_POWER", 120500, milliwatts);
}
NVML nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  return give("FAKE_NVML_POWER_LIMIT", 700000, milliwatts);
}
struct MemoryInfo {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};
NVML nvmlDeviceGetMemoryInfo(void*, MemoryInfo* info) {
  *info = {24'000'000'000, setting("FAKE_NVML_FREE", 23'000'000'000), 0};
  return 0;
}

// FAKE_NVML_PROCESSES processes of 1 MB, numbered from FAKE_NVML_FIRST_PID.
NVML nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* list) {
  const auto wanted = static_cast<unsigned>(setting("FAKE_NVML_PROCESSES", 0));
  const bool fits = *count >= wanted;
  *count = wanted;
  if (!fits) return buffer_too_small;
  for (unsigned i = 0; i < wanted; ++i) {
    list[i] = {static_cast<unsigned>(setting("FAKE_NVML_FIRST_PID", 1)) + i, 1'000'000, 0, 0};
  }
  return 0;
}
