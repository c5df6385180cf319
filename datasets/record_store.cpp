#include "datasets/record_store.hpp"

#include <sys/mman.h>

#include <new>

#include "base/units.hpp"

namespace dtrain::datasets {

namespace {

// Left uninitialised, so that opening a dataset touches nothing.
std::uint8_t* allocate(std::size_t bytes) {
  constexpr std::size_t huge_page = 2 * mib;
  const std::size_t rounded = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = std::aligned_alloc(huge_page, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, rounded, MADV_HUGEPAGE);
  return static_cast<std::uint8_t*>(memory);
}

}  // namespace

RecordStore::RecordStore(std::size_t count, Make make)
    : make_(std::move(make)),
      pixels_(allocate(count * pixels_per_image)),
      made_(std::make_unique<std::atomic<bool>[]>(count)) {}

std::span<const std::uint8_t, pixels_per_image> RecordStore::at(std::size_t index) const {
  const std::span<std::uint8_t, pixels_per_image> out(pixels_.get() + index * pixels_per_image,
                                                      pixels_per_image);
  if (!made_[index].load(std::memory_order_acquire)) {
    const std::lock_guard lock(locks_[index % locks_.size()]);
    if (!made_[index].load(std::memory_order_relaxed)) {
      make_(index, out);
      made_[index].store(true, std::memory_order_release);
    }
  }
  return out;
}

}  // namespace dtrain::datasets
