#pragma once

#include <cstdint>
#include <vector>

#include "base/mapped_file.hpp"

namespace dtrain::datasets {

// Appends the label of every record to `labels`. Unless the file is whole CIFAR-10 records with labels 0..9,
// a data error says what is wrong, at which record and byte, or what the file seems to be instead.
void read_labels(const MappedFile& file, std::vector<std::uint8_t>& labels);

}  // namespace dtrain::datasets
