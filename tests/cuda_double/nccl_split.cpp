#include <algorithm>

#include "entry.hpp"
#include "nccl_group.hpp"

namespace cuda_double {

bool complete(const std::vector<SplitRequest>& requests) {
  return std::all_of(requests.begin(), requests.end(),
                     [](const SplitRequest& request) { return request.made; });
}

namespace {

// Once all ranks of the parent have asked; its mutex is held.
void make_children(const std::vector<SplitRequest>& requests) {
  std::map<int, std::vector<SplitRequest>> by_color;
  for (const SplitRequest& request : requests) {
    if (request.child != nullptr) by_color[request.color].push_back(request);
  }
  for (auto& [color, members] : by_color) {
    std::stable_sort(members.begin(), members.end(),
                     [](const auto& a, const auto& b) { return a.key < b.key; });
    const int size = static_cast<int>(members.size());
    auto* clique = machine().make<Clique>(size);
    for (int rank = 0; rank < size; ++rank) {
      ncclComm& child = *members[static_cast<std::size_t>(rank)].child;
      child.rank = rank;
      (void)join(*clique, child, size);
    }
  }
}

ncclResult_t split(ncclComm& parent, int color, int key, ncclComm_t* place, const ncclConfig_t* config) {
  if (place == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
    return refuse(ncclInvalidArgument, "no place for the communicator, or a negative colour");
  }
  bool blocking = parent.blocking;
  if (const ncclResult_t bad = blocking_of(config, &blocking)) return bad;
  ncclComm* child = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) child = machine().make<ncclComm>(parent.rank, parent.device, blocking);
  const std::vector<SplitRequest>* requests = nullptr;
  {
    const std::lock_guard lock(parent.clique->mutex);
    auto& all = parent.clique->splits[parent.splits++];
    all.resize(parent.clique->ranks.size());
    all[static_cast<std::size_t>(parent.rank)] = {child, color, key, true};
    if (complete(all)) make_children(all);
    requests = &all;
  }
  *place = child;
  const auto done = [&clique = *parent.clique, requests] {
    const std::lock_guard lock(clique.mutex);
    return complete(*requests);
  };
  if (parent.blocking)
    return settle(
        done, [] { return ncclSuccess; }, "all ranks to split");
  parent.splitting = requests;
  return ncclInProgress;
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  return library_call<"ncclCommSplit", ncclResult_t>([&] {
    const ncclResult_t bad = ready(communicator);
    return bad != ncclSuccess ? bad : split(*communicator, color, key, child, config);
  });
}
