#include "base/page_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/error.hpp"

namespace dtrain {

namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void refused(const char* call) {
  throw environment_error(fmt::format("{} failed: {}", call, std::strerror(errno)),
                          "this system cannot take back parts of a buffer: use another --strategy");
}

}  // namespace

std::size_t PageBuffer::page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void PageBuffer::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

PageBuffer::PageBuffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t whole = round_up(bytes, page_size());
  void* at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = {static_cast<std::byte*>(at), Unmap{whole}};
  // Where pages were huge, little of the buffer could be given back. Systems without them refuse.
  madvise(at, whole, MADV_NOHUGEPAGE);
}

void PageBuffer::release(std::size_t offset, std::size_t bytes) {
  const std::size_t begin = round_up(offset, page_size());
  // Nothing lies behind the buffer's end in its last page.
  const std::size_t end = offset + bytes == size_ ? mapped() : (offset + bytes) / page_size() * page_size();
  if (begin >= end) return;
  if (madvise(data() + begin, end - begin, MADV_DONTNEED) != 0) refused("madvise");
}

void PageBuffer::clear() { release(0, size_); }

std::size_t PageBuffer::resident() const {
  constexpr std::size_t at_once = 4096;
  std::array<unsigned char, at_once> pages;
  std::size_t count = 0;
  for (std::size_t at = 0; at < mapped(); at += at_once * page_size()) {
    const std::size_t bytes = std::min(at_once * page_size(), mapped() - at);
    auto* const begin = const_cast<std::byte*>(data() + at);
    if (mincore(begin, bytes, pages.data()) != 0) refused("mincore");
    count += static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(bytes / page_size()),
                      [](unsigned char page) { return (page & 1U) != 0; }));
  }
  return count * page_size();
}

}  // namespace dtrain
