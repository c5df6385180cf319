#pragma once

#include "backend/backend.hpp"
#include "report/result.hpp"

namespace dtrain::cli {

// Facts of this machine for result files: processor, cores, memory and these devices.
report::Machine describe_machine(const std::vector<backend::DeviceInfo>& devices);

}  // namespace dtrain::cli
