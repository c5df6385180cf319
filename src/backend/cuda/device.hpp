#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/nvml.hpp"

namespace dtrain::backend::cuda {

// "13.0" of 13000, as CUDA counts its versions.
std::string version_text(int version);

// The GPUs that this process may see. Environment error where there are none: no driver, one that is too old,
// or all of them hidden. `nvml` may be null: then a context is made on each, to ask for its free memory.
std::vector<DeviceInfo> read_devices(const Nvml* nvml);

std::string bus_id(int device);  // "0000:65:00.0", what NVML knows the device by

}  // namespace dtrain::backend::cuda
