#include "backend/xla/xla_backend.hpp"

#include <mutex>
#include <numeric>
#include <optional>

#include "backend/cpu/topology.hpp"
#include "backend/xla/cpu_share.hpp"
#include "backend/xla/find_plugin.hpp"
#include "backend/xla/xla_replica.hpp"
#include "base/error.hpp"
#include "kernels/peak.hpp"

namespace dtrain::backend::xla {

namespace {

// What Google publishes of a chip: bfloat16 operations and bytes of memory a second.
struct Chip {
  std::string_view kind;
  double bf16 = 0.0;
  double bytes_per_second = 0.0;
};
constexpr Chip chips[] = {{"TPU v4", 275e12, 1228e9},
                          {"TPU v5 lite", 197e12, 819e9},
                          {"TPU v5", 459e12, 2765e9},
                          {"TPU v5p", 459e12, 2765e9},
                          {"TPU v6 lite", 918e12, 1640e9}};

// A plugin that was loaded, and what it said of itself.
struct Opened {
  std::shared_ptr<const Plugin> plugin;
  std::string platform;
  std::string version;
  std::shared_ptr<const Client> client;  // null for XLA's CPU plugin, which gives every replica its own
  bool on_cpu() const { return client == nullptr; }
};

Opened open_plugin(const std::string& asked) {
  quieten_plugins();
  Opened opened;
  opened.plugin = std::make_shared<const Plugin>(find_plugin(asked));
  auto client = std::make_shared<const Client>(opened.plugin, 0);
  opened.platform = client->platform();
  opened.version = client->platform_version();
  if (opened.platform != "cpu") opened.client = std::move(client);
  return opened;
}

class XlaBackend final : public Backend {
 public:
  explicit XlaBackend(std::string plugin) : asked_(std::move(plugin)) {}

  std::string name() const override { return "tpu"; }

  std::vector<DeviceInfo> devices() const override {
    const Opened& found = opened();
    return found.on_cpu() ? cores() : devices_of(*found.client);
  }

  std::vector<std::string> libraries() const override {
    const Opened& found = opened();
    return {fmt::format("{} ({})", found.plugin->version(), found.plugin->file().string()),
            fmt::format("platform {}: {}", found.platform, found.version)};
  }

  std::vector<std::string> check_precision(config::Precision precision) const override {
    switch (precision) {
      case config::Precision::fp32:
        return {};
      case config::Precision::bf16:
        if (!opened().on_cpu()) return {};
        return {
            "bf16 is emulated by XLA's CPU plugin: weights and activations are rounded to bfloat16, "
            "arithmetic is fp32 - the numerics are those of bf16, the speed is not"};
      case config::Precision::tf32:
        throw usage_error("--precision tf32: a mode of NVIDIA's GPUs, not of devices behind PJRT",
                          "use --precision fp32 or bf16 with --device tpu");
      case config::Precision::fp16:
        throw usage_error("--precision fp16: TPUs compute in bfloat16, and no program is written for fp16",
                          "use --precision bf16, which needs no loss scaling, or fp32");
    }
    return {};
  }

  bool devices_share_memory() const override { return opened().on_cpu(); }

  // Of one device. Activations and their gradients at once, which is the most that a compiler may keep.
  std::size_t estimate_memory(const ReplicaConfig& config) const override {
    const model::Model& model = *config.model;
    const std::size_t element = config.precision == config::Precision::bf16 ? 2 : 4;
    const int states = kernels::optimizers().at(config.optimizer).value.states;
    const auto floats = static_cast<std::size_t>(2 + states) * model.parameter_count + model.statistic_count;
    std::size_t elements = model.image.elements() * 2;
    for (const auto& layer : model.layers) elements += 2 * layer.output.elements();
    const int images = config::share_of(config.max_batch, 0, config.replicas);
    return floats * sizeof(float) + model.parameter_count * (element == 2 ? 2 : 0) +
           elements * element * static_cast<std::size_t>(images);
  }

  std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const override {
    const Opened& found = opened();
    if (!found.on_cpu()) return std::make_unique<XlaReplica>(found.client, config, config.replicas, false);
    std::shared_ptr<const Client> client;
    make_on_cores(share_of_cores(config),
                  [&] { client = std::make_shared<const Client>(found.plugin, config.replicas); });
    return std::make_unique<XlaReplica>(client, config, config.replicas, true);
  }

 private:
  const Opened& opened() const {
    const std::lock_guard lock(mutex_);
    if (!opened_) opened_ = open_plugin(asked_);
    return *opened_;
  }

  static std::vector<DeviceInfo> cores() {
    const double peak = kernels::measure_peak_flops();
    std::vector<DeviceInfo> devices;
    for (const int core : cpu::usable_cores()) {
      DeviceInfo device;
      device.index = core;
      device.name = fmt::format("core {}, as a device of XLA's CPU plugin", core);
      device.peak = {.fp32 = peak, .bf16 = peak};
      device.memory = device.free_memory = cpu::available_memory();
      devices.push_back(std::move(device));
    }
    return devices;
  }

  static std::vector<DeviceInfo> devices_of(const Client& client) {
    std::vector<DeviceInfo> devices;
    for (int d = 0; d < client.devices(); ++d) {
      DeviceInfo device;
      device.index = d;
      device.name = client.device_kind(d);
      device.architecture = client.platform();
      const MemoryStats memory = client.memory(d);
      device.memory = memory.limit;
      device.free_memory = memory.limit > memory.in_use ? memory.limit - memory.in_use : 0;
      for (const Chip& chip : chips) {
        if (chip.kind != device.name) continue;
        device.peak.bf16 = chip.bf16;
        device.bytes_per_second = chip.bytes_per_second;
      }
      devices.push_back(std::move(device));
    }
    return devices;
  }

  // Fewer where there are not as many; the plan then calls the run simulated.
  static std::vector<int> share_of_cores(const ReplicaConfig& config) {
    std::vector<int> cores = config.cores;
    const auto wanted = static_cast<std::size_t>(config.replicas * std::max(config.threads, 1));
    if (cores.size() < wanted) cores = cpu::usable_cores();
    if (config.threads > 1 && cores.size() < wanted) {
      throw environment_error(
          fmt::format("--threads-per-replica {}: {} devices of XLA's CPU plugin need {} cores, found {}",
                      config.threads, config.replicas, wanted, cores.size()),
          "use fewer of either: devices would share cores, and N of them not be N times the hardware");
    }
    if (cores.size() > wanted) cores.resize(wanted);
    return cores;
  }

  std::string asked_;
  mutable std::mutex mutex_;
  mutable std::optional<Opened> opened_;
};

}  // namespace

std::shared_ptr<const Backend> make_xla_backend(std::string plugin) {
  return std::make_shared<XlaBackend>(std::move(plugin));
}

}  // namespace dtrain::backend::xla
