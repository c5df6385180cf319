#include "backend/cuda/peak.hpp"

#include <gtest/gtest.h>

namespace {

using dtrain::backend::cuda::memory_bandwidth;
using dtrain::backend::cuda::peak_flops;

// TFLOP/s, dense, of NVIDIA's data sheets, at the clocks they are given for.
struct Sheet {
  const char* name;
  int capability;
  int multiprocessors;
  double gigahertz;
  double fp32, tf32, half;
};

class DataSheet : public testing::TestWithParam<Sheet> {};

TEST_P(DataSheet, IsMetWithinTwoPercent) {
  const Sheet& sheet = GetParam();
  const auto peak = peak_flops(sheet.capability, sheet.multiprocessors, 1e9 * sheet.gigahertz, sheet.name);
  EXPECT_NEAR(peak.fp32 / 1e12, sheet.fp32, 0.02 * sheet.fp32);
  EXPECT_NEAR(peak.tf32 / 1e12, sheet.tf32, 0.02 * sheet.tf32);
  EXPECT_NEAR(peak.bf16 / 1e12, sheet.half, 0.02 * sheet.half);
  EXPECT_EQ(peak.fp16, peak.bf16);
}

INSTANTIATE_TEST_SUITE_P(Boards, DataSheet,
                         testing::Values(Sheet{"NVIDIA A100-SXM4-80GB", 80, 108, 1.41, 19.5, 156, 312},
                                         Sheet{"NVIDIA A10", 86, 72, 1.695, 31.2, 62.5, 125},
                                         Sheet{"NVIDIA GeForce RTX 3090", 86, 82, 1.695, 35.6, 35.6, 71},
                                         Sheet{"NVIDIA L4", 89, 58, 2.04, 30.3, 60, 121},
                                         Sheet{"NVIDIA L40S", 89, 142, 2.52, 91.6, 183, 366},
                                         Sheet{"NVIDIA GeForce RTX 4090", 89, 128, 2.52, 82.6, 82.6, 165.2},
                                         Sheet{"NVIDIA H100 80GB HBM3", 90, 132, 1.83, 61.8, 494.7, 989.4},
                                         Sheet{"NVIDIA B200", 100, 148, 1.856, 70.3, 1125, 2250},
                                         Sheet{"NVIDIA GeForce RTX 5090", 120, 170, 2.407, 104.8, 104.8,
                                               209.5}));

TEST(Peak, OfAnUnknownArchitectureIsUnknown) {
  const auto peak = peak_flops(200, 100, 2e9, "NVIDIA X1");
  EXPECT_EQ(peak.fp32, 0.0);
  EXPECT_EQ(peak.fp16, 0.0);
}

TEST(Bandwidth, IsThatOfTheDataSheets) {
  EXPECT_NEAR(memory_bandwidth(3.201e9, 6144), 4.9e12, 0.05e12);   // H200: 4.8 TB/s
  EXPECT_NEAR(memory_bandwidth(1.593e9, 5120), 2.04e12, 0.01e12);  // A100 80 GB
  EXPECT_NEAR(memory_bandwidth(9.751e9, 384), 936e9, 1e9);         // RTX 3090
}

}  // namespace
