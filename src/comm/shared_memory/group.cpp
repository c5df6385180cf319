#include "comm/shared_memory/group.hpp"

#include <thread>

namespace dtrain::comm {

Group::Group(std::vector<int> names, const Patience& patience)
    : names_(std::move(names)),
      patience_(patience),
      seats_(names_.size()),
      mailboxes_(names_.size() * names_.size()) {}

void Group::fail(const Error& error) {
  std::vector<std::weak_ptr<Group>> children;
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = error;
    failed_ = true;
    children.swap(children_);
  }
  for (Seat& seat : seats_) seat.event.wake();
  for (const auto& child : children) {
    if (const auto group = child.lock()) group->fail(error);
  }
}

void Group::leave_buffers(int rank) const {
  for (int other = 0; other < size(); ++other) {
    const Seat& seat = seats_[static_cast<std::size_t>(other)];
    while (other != rank && seat.busy.load()) std::this_thread::yield();
  }
}

void Group::throw_failure(int rank) const {
  leave_buffers(rank);
  throw Error(*failure_);
}

std::shared_ptr<Group> Group::subgroup(std::uint64_t split, int colour, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  if (failed_) throw Error(*failure_);
  Forming& forming = forming_[{split, colour}];
  if (!forming.group) {
    std::vector<int> names;
    names.reserve(members.size());
    for (const int member : members) names.push_back(name_of(member));
    forming.group = std::make_shared<Group>(std::move(names), patience_);
    std::erase_if(children_, [](const auto& child) { return child.expired(); });
    children_.emplace_back(forming.group);
  }
  std::shared_ptr<Group> group = forming.group;
  if (++forming.asked == members.size()) forming_.erase({split, colour});
  return group;
}

}  // namespace dtrain::comm
