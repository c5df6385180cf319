// Runs the tests where there is a GPU that dtrain serves; elsewhere says why not and ends with 77, which
// ctest counts as skipped.

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "why_no_gpu.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = dtrain::testing::why_no_gpu();
  if (!reason.empty()) {
    std::printf("SKIPPED: %s\n", reason.c_str());
    return dtrain::testing::skipped;
  }
  return RUN_ALL_TESTS();
}
