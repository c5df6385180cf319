#include <bit>

#include "comm/spanning/core.hpp"

namespace dtrain::comm {

namespace {

// Tells the sender, the receiver and the number of values, in two halves.
using Header = std::array<float, 4>;

float as_float(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
std::uint32_t as_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// So often a rank looks whether another has read its message, or the group has failed.
constexpr auto between_looks = std::chrono::milliseconds(20);

}  // namespace

void SpanningCore::send_message(std::span<const float> data, int from, int to, const Deadline& deadline) {
  const Header header{as_float(static_cast<std::uint64_t>(from)), as_float(static_cast<std::uint64_t>(to)),
                      as_float(data.size()), as_float(data.size() >> 32U)};
  try {
    const std::lock_guard lock(sending_);
    exchange_->send(header, process_of(to), deadline);
    if (!data.empty()) exchange_->send(data, process_of(to), deadline);
  } catch (const Error&) {
    lane_.fail(Failure::caught());
    check();
  }
}

// One of the ranks that wait for a process reads what comes from it, for whomever it is.
std::vector<float> SpanningCore::receive_message(int from, int to, const Deadline& deadline) {
  const auto process = static_cast<std::size_t>(process_of(from));
  std::unique_lock lock(receiving_);
  auto& mine = messages_[{from, to}];
  while (mine.empty()) {
    check();
    if (deadline.passed()) {
      lock.unlock();
      fail_late(fmt::format("rank {}", name_of(from)), "send a message", to, deadline);
    }
    if (being_read_[process]) {
      message_came_.wait_until(lock, std::min<TimePoint>(deadline.at(), Clock::now() + between_looks));
    } else {
      read_message(static_cast<int>(process), lock, deadline);
    }
  }
  std::vector<float> message = std::move(mine.front());
  mine.pop_front();
  return message;
}

void SpanningCore::read_message(int process, std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  const auto at = static_cast<std::size_t>(process);
  being_read_[at] = true;
  lock.unlock();
  Header header{};
  std::vector<float> message;
  try {
    exchange_->receive(header, process, deadline);
    message.resize(as_bits(header[2]) + (static_cast<std::uint64_t>(as_bits(header[3])) << 32U));
    if (!message.empty()) exchange_->receive(message, process, deadline);
  } catch (const Error&) {
    lane_.fail(Failure::caught());
  }
  lock.lock();
  being_read_[at] = false;
  check();
  messages_[{static_cast<int>(as_bits(header[0])), static_cast<int>(as_bits(header[1]))}].push_back(
      std::move(message));
  message_came_.notify_all();
}

}  // namespace dtrain::comm
