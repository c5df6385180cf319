#pragma once

#include <mutex>

#include "datasets/dataset.hpp"

namespace dtrain::datasets {

void add_record(Hash& hash, int label, std::span<const std::uint8_t, pixels_per_image> pixels);

// A dataset that computes its checksum when first asked and keeps it.
class ChecksummedDataset : public Dataset {
 public:
  std::string checksum() const final {
    std::call_once(computed_, [this] {
      Hash hash;
      add_to(hash);
      checksum_ = hash.hex();
    });
    return checksum_;
  }

 private:
  mutable std::once_flag computed_;
  mutable std::string checksum_;
};

}  // namespace dtrain::datasets
