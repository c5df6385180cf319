#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace dtrain::backend {

// What there is of NVIDIA's GPUs.
struct GpuFindings {
  bool present = false;             // a GPU or its driver is there, usable or not
  std::vector<DeviceInfo> devices;  // that the environment lets this process see
  std::string problem;              // why there are none; a sentence without its full stop
  std::string advice;
};

// Whether a GPU or its driver is there: looks for files alone.
bool gpu_present();

// Loads the CUDA module and asks it.
GpuFindings find_gpus();

std::vector<std::string> device_names();  // what --device takes

// Resolves `--device`. "auto" takes GPUs where there are any; one that is there but cannot be used is an
// environment error, never a fall to the CPU. "cuda" never falls back. "cpu" looks at no GPU.
// "tpu" takes the devices of a PJRT plugin, and no others.
config::Inventory find_devices(const std::string& device, const BackendConfig& config = {});

// The same for GPUs that were found already.
config::Inventory choose_auto(const GpuFindings& gpus);
config::Inventory choose_cuda(const GpuFindings& gpus);

}  // namespace dtrain::backend
