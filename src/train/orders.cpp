#include "train/orders.hpp"

#include <array>

#include "base/bytes.hpp"

namespace dtrain::train {
namespace {

constexpr std::array kind_names{"build", "join", "run", "evaluate", "describe", "load", "drop", "end"};

// As long as the job lives: a loss ends the wait.
Deadline patient() { return Deadline::in(Seconds(30.0 * 24 * 3600)); }

std::string order_key(std::uint64_t serial) { return fmt::format("order/{}", serial); }
std::string answer_key(std::uint64_t serial, int rank) { return fmt::format("answer/{}/{}", serial, rank); }

std::string pack(const Order& order) {
  ByteWriter bytes;
  bytes.put(order.kind).put(order.run).put(order.name).put(order.number).put(order.payload);
  return bytes.put(order.members).bytes();
}

Order unpack_order(const std::string& bytes) {
  ByteReader reader(bytes, "an order of the chief");
  Order order;
  order.kind = reader.get<Order::Kind>();
  order.run = reader.get<std::string>();
  order.name = reader.get<std::string>();
  order.number = reader.get<std::int64_t>();
  order.payload = reader.get<std::string>();
  order.members = reader.get_all<int>();
  return order;
}

}  // namespace

std::string name(Order::Kind kind) { return kind_names.at(static_cast<std::size_t>(kind)); }

std::string pack(const Failure& failure) {
  ByteWriter bytes;
  bytes.put(failure.rank)
      .put(failure.interrupted)
      .put(failure.echo)
      .put(failure.culprit)
      .put(failure.job_ended);
  return bytes.put(failure.category).put(failure.what).put(failure.advice).bytes();
}

Failure unpack_failure(const std::string& bytes) {
  ByteReader reader(bytes, "a failure");
  Failure failure;
  failure.rank = reader.get<int>();
  failure.interrupted = reader.get<bool>();
  failure.echo = reader.get<bool>();
  failure.culprit = reader.get<bool>();
  failure.job_ended = reader.get<bool>();
  failure.category = reader.get<ErrorCategory>();
  failure.what = reader.get<std::string>();
  failure.advice = reader.get<std::string>();
  return failure;
}

std::uint64_t Leader::give(const Order& order) {
  if (ended_) return serial_;
  last_ = order;
  member_->set(order_key(++serial_), pack(order));
  return serial_;
}

std::map<int, std::string> Leader::collect() {
  if (ended_) return {};
  std::map<int, std::string> payloads;
  FailureLog failures;
  for (const int rank : last_.members) {
    if (rank == member_->rank()) continue;
    const std::string key = answer_key(serial_, rank);
    const std::string bytes = member_->get(key, patient());
    member_->erase(key);
    ByteReader reader(bytes, fmt::format("an answer of {}",
                                         member_->peers().at(static_cast<std::size_t>(rank)).describe()));
    if (reader.get<bool>()) {
      Failure failure = unpack_failure(reader.get<std::string>());
      failure.what =
          fmt::format("{}: {}", member_->peers().at(static_cast<std::size_t>(rank)).describe(), failure.what);
      failures.add(failure);
    }
    payloads[rank] = reader.get<std::string>();
  }
  if (const auto cause = failures.cause()) cause->raise();
  return payloads;
}

void Leader::end(const Failure* failure) {
  if (ended_) return;
  Order order;
  if (failure != nullptr) order.payload = pack(*failure);
  give(order);
  ended_ = true;
}

Order Orders::next() { return unpack_order(member_->get(order_key(++serial_), patient())); }

void Orders::answer(const Answer& answer) {
  ByteWriter bytes;
  bytes.put(answer.failure.has_value());
  if (answer.failure) bytes.put(pack(*answer.failure));
  bytes.put(answer.payload);
  member_->set(answer_key(serial_, member_->rank()), bytes.bytes());
}

}  // namespace dtrain::train
