#include "comm/nccl/roster.hpp"

#include <numeric>

#include "comm/shared_memory/group.hpp"

namespace dtrain::comm {

namespace {

std::uint64_t pack(Position position) {
  return std::uint64_t{position.meetings} << 32U | std::uint64_t{position.started};
}

// With a text of its own: copies of an exception share theirs, and this one may outlive the group.
void throw_failure_of(const Group& group) {
  try {
    group.check(0);
  } catch (const Error& error) {
    throw Error(error.category(), error.what(), error.advice());
  }
}

// A rank's seat holds its position, which grows as it is packed.
class SharedRoster final : public Roster {
 public:
  explicit SharedRoster(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  int name_of(int rank) const override { return group_->name_of(rank); }

  void announce(int rank, Position position) override { group_->seat(rank).done.store(pack(position)); }

  std::optional<int> first_behind(Position position) const override {
    for (int rank = 0; rank < group_->size(); ++rank) {
      if (group_->seat(rank).done.load() < pack(position)) return rank;
    }
    return std::nullopt;
  }

  void fail(const Error& error) override { group_->fail(error); }
  bool failed() const override { return group_->failed(); }
  void throw_failure() const override { throw_failure_of(*group_); }

  std::shared_ptr<Roster> subgroup(std::uint64_t split, int colour,
                                   const std::vector<int>& members) override {
    return std::make_shared<SharedRoster>(group_->subgroup(split, colour, members));
  }

 private:
  std::shared_ptr<Group> group_;
};

class LoneRoster final : public Roster {
 public:
  explicit LoneRoster(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  int name_of(int rank) const override { return group_->name_of(rank); }
  void announce(int, Position) override {}
  std::optional<int> first_behind(Position) const override { return std::nullopt; }
  void fail(const Error& error) override { group_->fail(error); }
  bool failed() const override { return group_->failed(); }
  void throw_failure() const override { throw_failure_of(*group_); }

  std::shared_ptr<Roster> subgroup(std::uint64_t split, int colour,
                                   const std::vector<int>& members) override {
    return std::make_shared<LoneRoster>(group_->subgroup(split, colour, members));
  }

 private:
  std::shared_ptr<Group> group_;
};

std::shared_ptr<Group> make_group(int size) {
  std::vector<int> names(static_cast<std::size_t>(size));
  std::iota(names.begin(), names.end(), 0);
  return std::make_shared<Group>(std::move(names), Patience{});
}

}  // namespace

std::shared_ptr<Roster> make_shared_roster(int size) {
  return std::make_shared<SharedRoster>(make_group(size));
}

std::shared_ptr<Roster> make_lone_roster(int size) { return std::make_shared<LoneRoster>(make_group(size)); }

}  // namespace dtrain::comm
