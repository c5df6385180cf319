#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>

#include "datasets/dataset.hpp"

namespace dtrain::datasets {

// Images that are made when first asked for and then kept. Any thread may ask. Memory is taken a huge page at
// a time where the system has them, as faults would otherwise cost as much as making an image.
class RecordStore {
 public:
  using Make = std::function<void(std::size_t index, std::span<std::uint8_t, pixels_per_image> out)>;

  RecordStore(std::size_t count, Make make);
  std::span<const std::uint8_t, pixels_per_image> at(std::size_t index) const;

 private:
  Make make_;
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t[], Free> pixels_;
  std::unique_ptr<std::atomic<bool>[]> made_;
  mutable std::array<std::mutex, 64> locks_;
};

}  // namespace dtrain::datasets
