#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"

namespace dtrain::comm {

// How far a rank has come. It meets the others in synchronize and in every blocking collective, and starts
// all-reduces in between. A recording that is replayed starts its all-reduces where the host does not see it;
// meetings come in the same order on every rank whether or not anything was recorded.
struct Position {
  std::uint32_t meetings = 0;  // 0: not joined yet; joining is the first
  std::uint32_t started = 0;   // all-reduces since the last meeting, as far as the host saw them
  auto operator<=>(const Position&) const = default;
};

// What the ranks of a group tell each other beside NCCL, which tells nobody whom it waits for. Called from
// any thread, and often: nothing here waits.
class Roster {
 public:
  virtual ~Roster() = default;
  virtual int name_of(int rank) const = 0;  // by which messages call it

  virtual void announce(int rank, Position position) = 0;
  // The lowest rank that is known not to have come so far.
  virtual std::optional<int> first_behind(Position position) const = 0;

  // Ends the group and those split from it, unless it has failed already.
  virtual void fail(const Error& error) = 0;
  virtual bool failed() const = 0;
  virtual void throw_failure() const = 0;  // the first one

  // The roster of `members` (ranks here) in the group that the split with this number makes for a colour.
  virtual std::shared_ptr<Roster> subgroup(std::uint64_t split, int colour,
                                           const std::vector<int>& members) = 0;
};

// For ranks that are all threads of this process and share it.
std::shared_ptr<Roster> make_shared_roster(int size);
// For a rank that has nobody to ask.
std::shared_ptr<Roster> make_lone_roster(int size);

}  // namespace dtrain::comm
