#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"

namespace dtrain::datasets {

struct SplitSummary {
  std::size_t records = 0;
  std::array<std::size_t, class_count> labels = {};  // how many records have each label
  std::string checksum;                              // Dataset::checksum(), as result files record it
};

struct Inspection {
  std::string name;
  bool synthetic = false;
  std::string note;
  std::vector<DataFile> files;
  std::vector<std::string> class_names;
  SplitSummary train;
  std::optional<SplitSummary> test;
  std::string checksum;  // over all records, training first
};

Inspection inspect(const Cifar10& data);

// Record `index`, counted from 0 over the training files and then the test file. Usage error when there is
// none.
struct Picture {
  std::string ppm;  // binary PPM (P6), 32 x 32
  int label = 0;
  bool test = false;
};
Picture picture(const Cifar10& data, std::size_t index);

}  // namespace dtrain::datasets
