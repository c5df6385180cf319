#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "config/device_condition.hpp"
#include "config/plan.hpp"

namespace dtrain::backend {

// Floating-point operations a second, estimated; 0 = unknown.
struct PeakFlops {
  double fp32 = 0.0;
  double tf32 = 0.0;
  double bf16 = 0.0;
  double fp16 = 0.0;

  double at(config::Precision precision) const;
};

// A core or a GPU.
struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string architecture;  // "sm_90"; empty for a core
  PeakFlops peak;
  double bytes_per_second = 0.0;  // of its memory, at most; 0 = unknown
  std::size_t memory = 0;         // bytes in all
  std::size_t free_memory = 0;
  std::string unusable;  // why nothing runs on it; empty where something does
};

using config::DeviceCondition;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<DeviceInfo> devices() const = 0;
  virtual std::vector<std::string> libraries() const = 0;  // "oneDNN 2.6.3 (avx2)"
  virtual std::string driver() const { return {}; }        // its version; empty without one
  // Of all devices that have a driver to ask. Takes milliseconds: not to be called on the clock.
  virtual std::vector<DeviceCondition> conditions() const { return {}; }

  // Throws a usage or environment error, with the nearest possible choice, when this machine cannot do it.
  // Returns notes to show, e.g. that bf16 is emulated here.
  virtual std::vector<std::string> check_precision(config::Precision precision) const = 0;

  // Bytes one replica will take, from shapes; what `--memory-limit` and free memory are held against. Of one
  // device, where a replica drives several.
  virtual std::size_t estimate_memory(const ReplicaConfig& config) const = 0;

  // Whether devices that have a number each are all of them parts of this machine's memory.
  virtual bool devices_share_memory() const { return false; }

  // Called on the thread that will drive the replica; the thread is pinned to config.cores.
  virtual std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const = 0;
};

struct BackendConfig {
  std::string pjrt_plugin;  // tpu: the library that drives the devices; empty = libtpu
};

using BackendMaker = std::shared_ptr<const Backend> (*)(const BackendConfig& config);
const Registry<BackendMaker>& backends();

// The backend of that name, made once for a configuration: a process may hold a device only once.
std::shared_ptr<const Backend> backend_for(const std::string& name, const BackendConfig& config = {});

// Bytes that one of `replicas` which share the free memory may take. A limit or free memory of 0 is none that
// is known; 0 = nothing is.
std::size_t allowed_memory(int replicas, std::size_t limit_per_replica, std::size_t free_memory);

// Refuses a replica larger than that, naming what was asked, what is there and what the caller advises.
void require_memory(const Backend& backend, const ReplicaConfig& config, int replicas,
                    std::size_t limit_per_replica, std::size_t free_memory,
                    const std::function<std::string()>& advice);

}  // namespace dtrain::backend
