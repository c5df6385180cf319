#include "base/page_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

namespace dtrain {
namespace {

const std::size_t page = PageBuffer::page_size();

std::span<std::byte> bytes_of(PageBuffer& buffer) { return {buffer.data(), buffer.size()}; }

TEST(PageBuffer, PagesComeWithWhatIsWrittenToThem) {
  PageBuffer buffer(10 * page + 5);
  EXPECT_EQ(buffer.size(), 10 * page + 5);
  EXPECT_EQ(buffer.resident(), 0U);
  buffer.data()[3 * page] = std::byte{1};
  EXPECT_EQ(buffer.resident(), page);
  buffer.data()[10 * page + 4] = std::byte{2};
  EXPECT_EQ(buffer.resident(), 2 * page);
  EXPECT_EQ(buffer.data()[4 * page], std::byte{0});
}

TEST(PageBuffer, OnlyPagesInsideGoBack) {
  PageBuffer buffer(8 * page);
  std::ranges::fill(bytes_of(buffer), std::byte{7});
  EXPECT_EQ(buffer.resident(), 8 * page);
  buffer.release(page / 2, 3 * page);  // halves of pages 0 and 3, and what is between them
  EXPECT_EQ(buffer.resident(), 6 * page);
  buffer.release(4 * page + 1, page - 1);
  EXPECT_EQ(buffer.resident(), 6 * page);
  buffer.data()[page] = std::byte{3};
  EXPECT_EQ(buffer.resident(), 7 * page);
  buffer.data()[page] = std::byte{0};
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    ASSERT_EQ(buffer.data()[i], (i / page == 1 || i / page == 2) ? std::byte{0} : std::byte{7}) << i;
  }
}

TEST(PageBuffer, TheLastPageGoesThoughItIsNotFull) {
  PageBuffer buffer(2 * page + 100);
  std::ranges::fill(bytes_of(buffer), std::byte{7});
  buffer.release(2 * page, 100);
  EXPECT_EQ(buffer.resident(), 2 * page);
  buffer.clear();
  EXPECT_EQ(buffer.resident(), 0U);
  EXPECT_TRUE(std::ranges::all_of(bytes_of(buffer), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(PageBuffer, MovesAndMayBeEmpty) {
  PageBuffer none;
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.resident(), 0U);
  none.clear();
  PageBuffer first(page);
  first.data()[0] = std::byte{9};
  const std::byte* const address = first.data();
  none = std::move(first);
  EXPECT_EQ(none.data(), address);
  EXPECT_EQ(none.data()[0], std::byte{9});
  EXPECT_EQ(none.resident(), page);
}

// More pages than are asked about at once.
TEST(PageBuffer, CountsLargeBuffers) {
  PageBuffer buffer(9000 * page);
  for (std::size_t at = 0; at < 9000; at += 3) buffer.data()[at * page] = std::byte{1};
  EXPECT_EQ(buffer.resident(), 3000 * page);
}

}  // namespace
}  // namespace dtrain
