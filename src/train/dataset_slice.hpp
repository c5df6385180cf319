#pragma once

#include <memory>
#include <string>

#include "datasets/dataset.hpp"

namespace dtrain::train {

// `size` records of another dataset, from `offset` on.
class DatasetSlice final : public datasets::Dataset {
 public:
  DatasetSlice(std::shared_ptr<const Dataset> whole, std::size_t offset, std::size_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}

  const std::string& name() const override { return whole_->name(); }
  std::size_t size() const override { return size_; }
  int label(std::size_t index) const override { return whole_->label(offset_ + index); }
  std::span<const std::uint8_t, datasets::pixels_per_image> pixels(std::size_t index) const override {
    return whole_->pixels(offset_ + index);
  }
  std::string checksum() const override { return whole_->checksum(); }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::size_t offset_;
  std::size_t size_;
};

}  // namespace dtrain::train
