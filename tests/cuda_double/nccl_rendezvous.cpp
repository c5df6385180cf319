#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dense.hpp"
#include "nccl_world.hpp"

namespace cuda_double {
namespace {

// Until it was raised, or this rank's communicator was aborted.
bool await(const Signal& signal, std::uint32_t times, const ncclComm& communicator) {
  while (!signal.wait_briefly(times)) {
    if (communicator.given_up()) return false;
  }
  return true;
}

void hang_if_told(const ncclComm& communicator) {
  while (machine().nccl->hung(communicator.rank) && !communicator.given_up()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void hang(const ncclComm& communicator) {
  while (!communicator.given_up()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Round* arrive(Clique& clique, const ncclComm& communicator, std::uint64_t number, const Contribution& own) {
  const std::lock_guard lock(clique.mutex);
  Round& round = clique.round(number);
  const auto first = std::find_if(round.contributions.begin(), round.contributions.end(),
                                  [](const Contribution& other) { return !other.name.empty(); });
  if (first != round.contributions.end() && !first->matches(own)) {
    clique.fail(ncclInvalidUsage,
                fmt::format("rank {} calls {} of {}, rank {} calls {} of {}", communicator.rank, own.name,
                            own.count, first - round.contributions.begin(), first->name, first->count));
    round.dead = true;
  }
  round.contributions[static_cast<std::size_t>(communicator.rank)] = own;
  if (++round.arrived == clique.size() && !round.dead) round.complete.raise();
  return &round;
}

// A rank that gives up takes its buffers with it, so the round can never be complete; unless it is.
bool gave_up_in_time(Clique& clique, Round& round) {
  const std::lock_guard lock(clique.mutex);
  if (round.arrived == clique.size() && !round.dead) return false;
  round.dead = true;
  return true;
}

void leave(Clique& clique, std::uint64_t number, Round& round) {
  const std::lock_guard lock(clique.mutex);
  if (++round.left == clique.size()) clique.rounds.erase(number);
}

// Elements [from, to) of every rank's buffer, at this offset, reduced in the order of ranks.
std::vector<std::byte> reduced(const Round& round, const Contribution& own, std::size_t from,
                               std::size_t to) {
  const std::size_t size = bytes_of(own.type);
  std::vector<std::byte> total((to - from) * size);
  if (total.empty()) return total;  // more ranks than elements
  std::vector<std::byte> one(total.size());
  bool first = true;
  for (const Contribution& other : round.contributions) {
    std::memcpy(one.data(), static_cast<const std::byte*>(other.send) + from * size, one.size());
    dense::reduce(own.type, own.reduction.kind, other.reduction.factor, first, one.data(), to - from,
                  total.data());
    first = false;
  }
  return total;
}

void copy(const Contribution& from, std::size_t bytes, std::byte* to) {
  if (to != from.send) std::memcpy(to, from.send, bytes);
}

// What a rank does once all have come, and, after all have read what they need, at its end.
void read_others(Round& round, const Contribution& own, std::size_t rank) {
  const std::size_t ranks = round.contributions.size();
  const std::size_t bytes = own.count * bytes_of(own.type);
  auto* to = static_cast<std::byte*>(own.receive);
  if (own.name == "ncclAllReduce") {
    const std::size_t from = own.count * rank / ranks;
    const auto share = reduced(round, own, from, own.count * (rank + 1) / ranks);
    std::copy(share.begin(), share.end(),
              round.result.begin() + static_cast<std::ptrdiff_t>(from * bytes_of(own.type)));
  } else if (own.name == "ncclReduceScatter") {
    const auto block = reduced(round, own, own.count * rank, own.count * (rank + 1));
    std::memcpy(to, block.data(), bytes);
  } else if (own.name == "ncclReduce") {
    if (static_cast<int>(rank) != own.root) return;
    const auto all = reduced(round, own, 0, own.count);
    std::memcpy(round.result.data(), all.data(), bytes);
  } else if (own.name == "ncclAllGather") {
    for (std::size_t other = 0; other < ranks; ++other)
      copy(round.contributions[other], bytes, to + other * bytes);
  } else {  // ncclBroadcast
    copy(round.contributions[static_cast<std::size_t>(own.root)], bytes, to);
  }
}

void write_result(const Round& round, const Contribution& own, std::size_t rank) {
  const bool takes =
      own.name == "ncclAllReduce" || (own.name == "ncclReduce" && static_cast<int>(rank) == own.root);
  if (takes) std::memcpy(own.receive, round.result.data(), own.count * bytes_of(own.type));
}

Message& next_message(Clique& clique, std::pair<int, int> ends, bool send) {
  const std::lock_guard lock(clique.mutex);
  Channel& channel = clique.channels[ends];
  return channel.messages[send ? channel.sent++ : channel.received++];
}

void take(ncclComm& communicator, const Transfer& into, Message& message) {
  Clique& clique = *communicator.clique;
  if (!await(message.posted, 1, communicator)) return;
  {
    const std::lock_guard lock(clique.mutex);
    if (message.count != into.count || message.type != into.type) {
      clique.fail(ncclInvalidUsage, fmt::format("rank {} receives {} elements, rank {} sends {}",
                                                communicator.rank, into.count, into.peer, message.count));
      message.dead = true;
    }
    message.claimed = !message.dead;
  }
  if (!message.claimed) return hang(communicator);
  std::memcpy(into.data, message.data, into.count * bytes_of(into.type));
  message.taken.raise();
}

void await_taken(ncclComm& communicator, Message& message) {
  if (await(message.taken, 1, communicator)) return;
  {
    const std::lock_guard lock(communicator.clique->mutex);
    message.dead = !message.claimed;
    if (message.dead) return;
  }
  message.taken.wait(1);
}

}  // namespace

bool Contribution::matches(const Contribution& other) const {
  return name == other.name && count == other.count && type == other.type && root == other.root &&
         reduction.kind == other.reduction.kind;
}

Round& Clique::round(std::uint64_t which) { return rounds.try_emplace(which, size()).first->second; }

void Clique::fail(ncclResult_t status, const std::string& why) {
  if (failure.load() != ncclSuccess) return;
  reason = why;
  failure.store(status);
}

void take_part(ncclComm& communicator, const Contribution& own) {
  Clique& clique = *communicator.clique;
  const std::uint64_t number = communicator.next_round.fetch_add(1, std::memory_order_relaxed);
  hang_if_told(communicator);
  if (communicator.given_up()) return;
  Round& round = *arrive(clique, communicator, number, own);
  if (!await(round.complete, 1, communicator) && gave_up_in_time(clique, round)) return;
  round.complete.wait(1);
  const auto rank = static_cast<std::size_t>(communicator.rank);
  {
    const std::lock_guard lock(clique.mutex);
    round.result.resize(own.count * bytes_of(own.type));
  }
  read_others(round, own, rank);
  round.finished.raise();
  round.finished.wait(static_cast<std::uint32_t>(clique.size()));
  write_result(round, own, rank);
  leave(clique, number, round);
}

void transfer(ncclComm& communicator, const std::vector<Transfer>& together) {
  hang_if_told(communicator);
  if (communicator.given_up()) return;
  Clique& clique = *communicator.clique;
  struct Open {
    const Transfer* transfer;
    Message* message;
  };
  std::vector<Open> open;
  for (const Transfer& one : together) {
    const std::pair<int, int> ends =
        one.send ? std::pair{communicator.rank, one.peer} : std::pair{one.peer, communicator.rank};
    Message& message = next_message(clique, ends, one.send);
    open.push_back({&one, &message});
    if (!one.send) continue;
    message.data = one.data;
    message.count = one.count;
    message.type = one.type;
    message.posted.raise();
  }
  for (const Open& one : open) {
    if (!one.transfer->send) take(communicator, *one.transfer, *one.message);
  }
  for (const Open& one : open) {
    if (one.transfer->send) await_taken(communicator, *one.message);
  }
}

}  // namespace cuda_double
