#pragma once

#include <cstddef>
#include <memory>

namespace dtrain {

// Memory whose pages are there once they were written to, and can be given back one by one. What is not there
// reads as zero. Addresses stay.
class PageBuffer {
 public:
  PageBuffer() = default;
  // Throws std::bad_alloc where there is no room for the addresses.
  explicit PageBuffer(std::size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

  // Gives back the pages that lie in [offset, offset + bytes) as a whole; the rest of it keeps its contents.
  void release(std::size_t offset, std::size_t bytes);
  // All of it reads as zero, and nothing is there.
  void clear();
  // Bytes that are there, by the system's own account. What was read while it was not there counts as well.
  std::size_t resident() const;

  static std::size_t page_size();

 private:
  struct Unmap {
    Unmap() : bytes(0) {}
    explicit Unmap(std::size_t mapped) : bytes(mapped) {}
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };
  std::size_t mapped() const { return data_.get_deleter().bytes; }

  std::unique_ptr<std::byte[], Unmap> data_;
  std::size_t size_ = 0;
};

}  // namespace dtrain
