#include "backend/cpu/cpu_backend.hpp"

#include "backend/cpu/cpu_replica.hpp"
#include "backend/cpu/topology.hpp"
#include "base/error.hpp"
#include "kernels/peak.hpp"

namespace dtrain::backend::cpu {

namespace {

std::string isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "baseline";
  }
}

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }

  std::vector<DeviceInfo> devices() const override {
    const double peak = kernels::measure_peak_flops();
    const std::size_t memory = available_memory();
    std::vector<DeviceInfo> devices;
    for (const int core : usable_cores()) {
      DeviceInfo device;
      device.index = core;
      device.name = fmt::format("core {}", core);
      device.peak = {.fp32 = peak, .bf16 = peak};
      device.memory = memory;
      device.free_memory = memory;
      devices.push_back(std::move(device));
    }
    return devices;
  }

  std::vector<std::string> libraries() const override {
    const dnnl_version_t& version = *dnnl::version();
    return {fmt::format("oneDNN {}.{}.{} ({})", version.major, version.minor, version.patch, isa_name())};
  }

  std::vector<std::string> check_precision(config::Precision precision) const override {
    switch (precision) {
      case config::Precision::fp32:
        return {};
      case config::Precision::bf16:
        return {
            "bf16 is emulated on this CPU backend: weights and activations are rounded to bfloat16, "
            "arithmetic is "
            "fp32 - the numerics are those of bf16, the speed is not"};
      case config::Precision::tf32:
        throw usage_error("--precision tf32: a mode of GPU tensor cores, not of CPU replicas",
                          "use --precision fp32 (or bf16) with --device cpu");
      case config::Precision::fp16:
        throw environment_error(
            fmt::format("--precision fp16: the CPU backend (oneDNN, {}) has no fp16 training kernels",
                        isa_name()),
            "use --precision bf16, which needs no loss scaling, or fp32");
    }
    return {};
  }

  std::size_t estimate_memory(const ReplicaConfig& config) const override {
    return CpuReplica::estimate(config);
  }

  std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const override {
    return std::make_unique<CpuReplica>(config);
  }
};

}  // namespace

std::shared_ptr<const Backend> make_cpu_backend() { return std::make_shared<CpuBackend>(); }

}  // namespace dtrain::backend::cpu
