#pragma once

#include <cstdlib>
#include <filesystem>

namespace dtrain::testing {

// Where a test leaves what it has found out: tests/gpu/run sets it to its folder of results.
inline std::filesystem::path results_folder() {
  const char* named = std::getenv("DTRAIN_GPU_RESULTS");
  return named != nullptr ? std::filesystem::path(named) : std::filesystem::temp_directory_path();
}

}  // namespace dtrain::testing
