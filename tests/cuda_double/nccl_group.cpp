#include "nccl_group.hpp"

#include <fmt/format.h>

#include "entry.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

constexpr auto longest_wait = std::chrono::seconds(60);

ncclResult_t wait(const GroupedWait& one) {
  const auto start = std::chrono::steady_clock::now();
  while (!one.done()) {
    if (machine().nccl->over) return ncclInternalError;
    if (std::chrono::steady_clock::now() - start > longest_wait) {
      return refuse(ncclSystemError, fmt::format("waited for {} in vain", one.waiting_for));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return one.outcome();
}

// In order; the messages of a communicator within a group go together, where the first of them stands.
ncclResult_t enqueue_all(std::vector<GroupedCall> calls) {
  ncclResult_t status = ncclSuccess;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    GroupedCall& call = calls[i];
    if (call.communicator == nullptr) continue;  // taken along
    ncclResult_t own = ncclSuccess;
    if (call.enqueue) {
      own = call.enqueue();
    } else {
      for (std::size_t j = i + 1; j < calls.size(); ++j) {
        if (calls[j].communicator != call.communicator || calls[j].enqueue || calls[j].stream != call.stream)
          continue;
        call.transfers.push_back(calls[j].transfers.front());
        calls[j].communicator = nullptr;
      }
      own = enqueue_transfers(*call.communicator, *call.stream, call.transfers);
    }
    if (status == ncclSuccess) status = own;
  }
  return status;
}

// A communicator that does not block is slow to connect: what it is given first, it enqueues when it is asked
// for its state the second time.
ncclResult_t enqueue_or_defer(std::vector<GroupedCall> calls) {
  std::map<ncclComm*, std::vector<GroupedCall>> later;
  std::vector<GroupedCall> now;
  for (GroupedCall& call : calls) {
    const bool defer = !call.communicator->blocking && !call.communicator->connected;
    (defer ? later[call.communicator] : now).push_back(std::move(call));
  }
  const ncclResult_t status = enqueue_all(std::move(now));
  for (auto& [communicator, own] : later) {
    communicator->connected = true;
    communicator->looks_until_enqueued = 1;
    communicator->pending = [own = std::move(own)] { return enqueue_all(own); };
  }
  return status == ncclSuccess && !later.empty() ? ncclInProgress : status;
}

bool mixed(const Group& group) { return !group.calls.empty() && !group.waits.empty(); }

ncclResult_t end_group() {
  Group& group = this_group();
  if (group.depth == 0) return refuse(ncclInvalidUsage, "a group ends that was not started");
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {group.epoch, 0, ncclSuccess, {}, {}, group.ungrouped});
  if (ended.error != ncclSuccess) return refuse(ended.error, "a call of the group was refused");
  if (mixed(ended)) return refuse(ncclInvalidUsage, "a group of collectives and of making communicators");
  for (const GroupedWait& one : ended.waits) {
    const ncclResult_t status = wait(one);
    if (status != ncclSuccess) return status;
  }
  return enqueue_or_defer(ended.calls);
}

}  // namespace

Group& this_group() {
  thread_local Group group;
  if (group.epoch != machine().epoch) group = {machine().epoch, 0, ncclSuccess, {}, {}, {}};
  return group;
}

bool in_group() { return this_group().depth > 0; }

ncclResult_t issue(GroupedCall call) {
  if (in_group()) {
    this_group().calls.push_back(std::move(call));
    return ncclSuccess;
  }
  std::vector<GroupedCall> one;
  one.push_back(std::move(call));
  return enqueue_or_defer(std::move(one));
}

ncclResult_t settle(std::function<bool()> done, std::function<ncclResult_t()> outcome,
                    const char* waiting_for) {
  GroupedWait one{std::move(done), std::move(outcome), waiting_for};
  if (!in_group()) return wait(one);
  this_group().waits.push_back(std::move(one));
  return ncclSuccess;
}

}  // namespace cuda_double

using namespace cuda_double;

ncclResult_t ncclGroupStart() {
  return library_call<"ncclGroupStart", ncclResult_t>([] {
    ++this_group().depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return library_call<"ncclGroupEnd", ncclResult_t>([] { return end_group(); });
}
