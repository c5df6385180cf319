#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/shared_memory/collectives.hpp"
#include "comm/shared_memory/event.hpp"

namespace dtrain::comm {

// A request that other ranks can see: `number` is the collective's number + 1 once `request` is valid.
struct alignas(64) Post {
  std::atomic<std::uint64_t> number{0};
  Request request;
};

// Collectives that a rank may have published before the first of them is finished.
inline constexpr std::uint64_t ring_size = 64;

// What one rank writes and the others read, each group of fields on cache lines of its own.
struct Seat {
  alignas(64) std::atomic<std::uint64_t> done{0};  // collectives in which this rank has done its part
  alignas(64) std::atomic<bool> busy{false};       // this rank is at other ranks' buffers
  alignas(64) Event event;                         // notified after each post, part and message
  std::array<Post, ring_size> posts;
};

// From one rank to another: holds a message while sent == taken + 1.
struct Mailbox {
  alignas(64) std::atomic<std::uint64_t> sent{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  std::vector<float> message;
};

// The memory that the ranks of a group share, and the group's failure. Knows nothing of algorithms.
class Group {
 public:
  // `names` are the numbers by which messages call the ranks: their ranks in the group that this one came
  // from.
  Group(std::vector<int> names, const Patience& patience);

  int size() const { return static_cast<int>(names_.size()); }
  int name_of(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  const Patience& patience() const { return patience_; }

  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  Post& post(int rank, std::uint64_t collective) { return seat(rank).posts[collective % ring_size]; }
  Mailbox& mailbox(int from, int to) { return mailboxes_[static_cast<std::size_t>(from * size() + to)]; }

  // Ends the group and those split from it, unless it has failed already, and wakes all who wait.
  void fail(const Error& error);
  bool failed() const { return failed_.load(); }
  // Throws the first failure, once no other rank is at this rank's buffers any more.
  void check(int rank) const {
    if (failed()) throw_failure(rank);
  }
  void leave_buffers(int rank) const;

  // The group of `members` (ranks here) that the split with this number makes for a colour; each member asks
  // once.
  std::shared_ptr<Group> subgroup(std::uint64_t split, int colour, const std::vector<int>& members);

 private:
  struct Forming {
    std::shared_ptr<Group> group;
    std::size_t asked = 0;
  };

  [[noreturn]] void throw_failure(int rank) const;

  std::vector<int> names_;
  Patience patience_;
  std::vector<Seat> seats_;
  std::vector<Mailbox> mailboxes_;

  std::atomic<bool> failed_{false};
  std::optional<Error> failure_;  // does not change once failed_ is set
  std::mutex mutex_;              // for failing and for what follows
  std::map<std::pair<std::uint64_t, int>, Forming> forming_;
  std::vector<std::weak_ptr<Group>> children_;
};

}  // namespace dtrain::comm
