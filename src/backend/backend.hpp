#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "config/plan.hpp"

namespace dtrain::backend {

struct DeviceInfo {
  int index = 0;
  std::string name;
  double peak_flops =
      0.0;  // fp32 floating-point operations a second of one replica's share, estimated; 0 = unknown
  std::size_t memory = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<DeviceInfo> devices() const = 0;
  virtual std::vector<std::string> libraries() const = 0;  // "oneDNN 2.6.3 (avx2)"

  // Throws a usage or environment error, with the nearest possible choice, when this machine cannot do it.
  // Returns notes to show, e.g. that bf16 is emulated here.
  virtual std::vector<std::string> check_precision(config::Precision precision) const = 0;

  // Bytes one replica will take, from shapes; what `--memory-limit` and free memory are held against.
  virtual std::size_t estimate_memory(const ReplicaConfig& config) const = 0;

  // Called on the thread that will drive the replica; the thread is pinned to config.cores.
  virtual std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const = 0;
};

const Registry<std::shared_ptr<const Backend>>& backends();

std::vector<std::string> device_names();  // what --device takes

// Resolves `--device`. "auto" takes GPUs where there are any; "cuda" never falls back (environment error).
config::Inventory find_devices(const std::string& device);

// Refuses a replica larger than the limit or free memory, naming what was asked, what is there and the
// largest batch that fits.
void require_memory(const Backend& backend, const ReplicaConfig& config, int replicas,
                    std::size_t limit_per_replica, std::size_t free_memory);

}  // namespace dtrain::backend
