#include "comm/gloo/channel.hpp"

#include <algorithm>

namespace dtrain::comm {

namespace {

constexpr std::size_t ahead = 2;

std::size_t place(std::size_t number) { return number % ahead * Channel::chunk; }

}  // namespace

Channel::Channel(gloo::Context& context, int peer, int slot)
    : outgoing_(ahead * chunk), incoming_(ahead * chunk) {
  auto& pair = context.getPair(peer);
  data_out_ = pair->createSendBuffer(slot, outgoing_.data(), outgoing_.size());
  data_in_ = pair->createRecvBuffer(slot, incoming_.data(), incoming_.size());
  credit_out_ = pair->createSendBuffer(slot + 1, &credit_, sizeof(credit_));
  credit_in_ = pair->createRecvBuffer(slot + 1, &credit_, sizeof(credit_));
}

void Channel::push(std::span<const std::byte> bytes) {
  if (pushed_ == taken_ + ahead) {
    credit_in_->waitRecv();
    ++taken_;
  }
  const std::size_t at = place(pushed_++);
  std::ranges::copy(bytes, outgoing_.begin() + static_cast<std::ptrdiff_t>(at));
  data_out_->send(at, bytes.size(), at);
}

void Channel::pull(std::span<std::byte> bytes) {
  data_in_->waitRecv();
  std::copy_n(incoming_.begin() + static_cast<std::ptrdiff_t>(place(pulled_++)), bytes.size(), bytes.begin());
  credit_out_->send();
}

}  // namespace dtrain::comm
