#include "backend/cuda/peak.hpp"

#include <algorithm>
#include <iterator>

namespace dtrain::backend::cuda {

namespace {

// Operations a clock and multiprocessor. fp32: CUDA C++ Programming Guide, "Throughput of Native Arithmetic
// Instructions". Tensor cores (dense, fp32 sums): NVIDIA's architecture papers and data sheets, e.g.
// A100 312 TFLOP/s = 108 x 1.41 GHz x 2048, H100 SXM 989 = 132 x 1.83 GHz x 4096, L40S 366 = 142 x 2.52 GHz x
// 1024, B200 2250 = 148 x 1.86 GHz x 8192, RTX PRO 6000 Blackwell 504 = 188 x 2.62 GHz x 1024.
struct Rates {
  int capability;
  double fp32;
  double tf32;
  double half;  // bf16 and fp16
};

constexpr Rates table[] = {
    {80, 128, 1024, 2048},   // A100, A30
    {86, 256, 512, 1024},    // A10, A40, RTX 30
    {89, 256, 512, 1024},    // L4, L40S, RTX 40
    {90, 256, 2048, 4096},   // H100, H200
    {100, 256, 4096, 8192},  // B200
    {120, 256, 512, 1024},   // RTX 50, RTX PRO Blackwell
};

// GeForce boards sum in fp32 at half the rate of the workstation boards with the same chip.
double tensor_share(const std::string& name) { return name.find("GeForce") != std::string::npos ? 0.5 : 1.0; }

}  // namespace

PeakFlops peak_flops(int capability, int multiprocessors, double clock_hz, const std::string& name) {
  const auto* rates = std::ranges::find(table, capability, &Rates::capability);
  if (rates == std::end(table)) return {};
  const double clocks = multiprocessors * clock_hz;
  const double tensor = clocks * tensor_share(name);
  return {.fp32 = rates->fp32 * clocks,
          .tf32 = rates->tf32 * tensor,
          .bf16 = rates->half * tensor,
          .fp16 = rates->half * tensor};
}

double memory_bandwidth(double memory_clock_hz, int bus_bits) { return 2.0 * memory_clock_hz * bus_bits / 8; }

}  // namespace dtrain::backend::cuda
