#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"

namespace dtrain::backend::cuda {

// NVIDIA's management library, which comes with the driver. It is opened at run time and never linked; what a
// version of it or a device does not tell stays at zero.
class Nvml {
 public:
  // Null where there is no such library, or no driver behind it.
  static std::unique_ptr<const Nvml> open(const std::string& file = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;  // empty where it is not told
  std::size_t free_memory(const std::string& bus_id) const;
  DeviceCondition condition(int device, const std::string& bus_id) const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<const Functions> functions);

  std::unique_ptr<const Functions> functions_;
};

}  // namespace dtrain::backend::cuda
