#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace dtrain::datasets {

struct GenerateConfig {
  std::filesystem::path directory;
  int images_per_file = 10'000;  // in each of the five training files
  int test_images = 10'000;
  std::uint64_t seed = 0;
};

using GenerateProgress = std::function<void(std::size_t images_done, std::size_t images)>;

// Writes data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt, each replaced as a whole,
// and returns their paths. The images are those of synthetic.hpp. Usage error for counts below 1; environment
// error where files cannot be written; Interrupted when `progress` throws it.
std::vector<std::filesystem::path> generate(const GenerateConfig& config,
                                            const GenerateProgress& progress = {});

}  // namespace dtrain::datasets
