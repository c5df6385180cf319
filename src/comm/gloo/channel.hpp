#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace dtrain::comm {

// Bytes to and from one other process, by way of memory that is registered with Gloo once. Either side sends
// two chunks ahead of what the other has taken.
class Channel {
 public:
  static constexpr std::size_t chunk = 128 * 1024;  // bytes: in the second-level cache, two each way

  // Both sides make their channels in the same order; `slot` is the first of two.
  Channel(gloo::Context& context, int peer, int slot);

  // At most a chunk at a time. They throw what Gloo throws.
  void push(std::span<const std::byte> bytes);
  void pull(std::span<std::byte> bytes);

 private:
  using Buffer = std::unique_ptr<gloo::transport::Buffer>;

  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  int credit_ = 0;
  std::size_t pushed_ = 0;
  std::size_t taken_ = 0;  // of them, as far as is known
  std::size_t pulled_ = 0;
  Buffer data_out_;
  Buffer data_in_;
  Buffer credit_out_;
  Buffer credit_in_;
};

}  // namespace dtrain::comm
