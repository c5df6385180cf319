#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::predict {

// What `dtrain allreduce --json` measured, `dtrain.allreduce/1`: as much of it as a prediction needs.
struct Sweep {
  struct Size {
    std::size_t bytes = 0;
    double seconds = 0.0;  // median of the slowest rank's times
    std::string algorithm;
    bool operator==(const Size&) const = default;
  };
  std::string file;
  std::string communicator;
  std::string compress;
  int workers = 1;  // processes
  int ranks = 1;    // in all of them
  std::vector<Size> sizes;
};

// Data error, naming file and key, for anything that is not such a file, whose values were wrong, or whose
// ranks or times cannot be.
Sweep read_sweep(const std::filesystem::path& path);

}  // namespace dtrain::predict
