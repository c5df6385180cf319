#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"

namespace dtrain::datasets {

// The records of these files in turn, every one checked. Appends what it read to `files`.
std::shared_ptr<const Dataset> open_files(const std::string& name,
                                          const std::vector<std::filesystem::path>& paths, bool test,
                                          bool cache, std::vector<DataFile>& files);

// The ten lines of batches.meta.txt beside the files, else CIFAR-10's own names.
std::vector<std::string> read_class_names(const std::filesystem::path& directory);

}  // namespace dtrain::datasets
