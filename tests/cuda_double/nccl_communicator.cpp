#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "nccl_group.hpp"
#include "stream.hpp"

ncclComm::ncclComm(int its_rank, int its_device, bool blocks)
    : Object("nccl communicator", fmt::format("rank {} on device {}", its_rank, its_device)),
      rank(its_rank),
      device(its_device),
      blocking(blocks) {}

namespace cuda_double {
namespace {

std::optional<std::pair<int, int>> same_device(const std::vector<ncclComm*>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = i + 1; j < ranks.size(); ++j) {
      if (ranks[i]->device == ranks[j]->device) return std::pair{ranks[i]->rank, ranks[j]->rank};
    }
  }
  return std::nullopt;
}

}  // namespace

ncclResult_t require_gpu() {
  const Setup& setup = machine().setup;
  if (!setup.driver || setup.devices == 0)
    return refuse(ncclUnhandledCudaError, "there is no driver or no device");
  if (machine().fault(this_thread().device) != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "the device is spoiled by an earlier fault");
  }
  return ncclSuccess;
}

ncclResult_t join(Clique& clique, ncclComm& communicator, int size) {
  const std::lock_guard lock(clique.mutex);
  if (clique.size() != size) {
    return refuse(ncclInvalidArgument,
                  fmt::format("the other ranks want {} ranks, not {}", clique.size(), size));
  }
  ncclComm*& place = clique.ranks[static_cast<std::size_t>(communicator.rank)];
  if (place != nullptr)
    return refuse(ncclInvalidUsage, fmt::format("rank {} joins twice", communicator.rank));
  place = &communicator;
  communicator.clique = &clique;
  if (++clique.joined < size) return ncclSuccess;
  if (const auto twice = same_device(clique.ranks)) {
    clique.fail(ncclInvalidUsage,
                fmt::format("ranks {} and {} are on the same device", twice->first, twice->second));
  }
  clique.complete.raise();
  return ncclSuccess;
}

ncclResult_t blocking_of(const ncclConfig_t* config, bool* blocking) {
  if (config == nullptr) return ncclSuccess;
  if (config->size != sizeof(ncclConfig_t) || config->magic != 0xcafebeef) {
    return refuse(ncclInvalidArgument, "the configuration was not initialised");
  }
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1) {
    return refuse(ncclInvalidArgument, "blocking is 0 or 1");
  }
  if (config->blocking != NCCL_CONFIG_UNDEF_INT) *blocking = config->blocking == 1;
  return ncclSuccess;
}

namespace {

NcclWorld& world() { return *machine().nccl; }

Clique& clique_of(const ncclUniqueId& id, int size) {
  const std::lock_guard lock(world().mutex);
  Clique*& clique = world().cliques[std::string(id.internal, sizeof id.internal)];
  if (clique == nullptr) clique = machine().make<Clique>(size);
  return *clique;
}

ncclResult_t failure_of(const Clique& clique) {
  const auto status = static_cast<ncclResult_t>(clique.failure.load());
  return status == ncclSuccess ? status : refuse(status, clique.reason);
}

// Waits for the other ranks, or says that it is in progress.
ncclResult_t await_others(ncclComm& communicator, ncclComm_t* place) {
  *place = &communicator;
  if (!communicator.blocking) return ncclInProgress;
  const Clique& clique = *communicator.clique;
  return settle([&clique] { return clique.complete.reached(1); },
                [&clique, &communicator, place] {
                  const ncclResult_t status = failure_of(clique);
                  if (status != ncclSuccess) {
                    communicator.alive = false;
                    *place = nullptr;
                  }
                  return status;
                },
                "all ranks to join");
}

ncclResult_t init_rank(ncclComm_t* place, int size, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  if (const ncclResult_t bad = require_gpu()) return bad;
  if (place == nullptr || size < 1 || rank < 0 || rank >= size) {
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", rank, size));
  }
  bool blocking = true;
  if (const ncclResult_t bad = blocking_of(config, &blocking)) return bad;
  if (refuse_unsafe_call("ncclCommInitRank") != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, this_thread().refusal);
  }
  auto* communicator = machine().make<ncclComm>(rank, this_thread().device, blocking);
  const ncclResult_t joined = join(clique_of(id, size), *communicator, size);
  if (joined == ncclSuccess) return await_others(*communicator, place);
  communicator->alive = false;
  return joined;
}

ncclResult_t init_all(ncclComm_t* places, int count, const int* devices) {
  if (const ncclResult_t bad = require_gpu()) return bad;
  if (places == nullptr || count < 1 || count > machine().setup.devices) {
    return refuse(ncclInvalidArgument, fmt::format("{} ranks on {} devices", count, machine().setup.devices));
  }
  std::vector<int> on;
  for (int rank = 0; rank < count; ++rank) {
    on.push_back(devices == nullptr ? rank : devices[rank]);
    if (on.back() < 0 || on.back() >= machine().setup.devices)
      return refuse(ncclInvalidArgument, "no such device");
    if (std::count(on.begin(), on.end(), on.back()) > 1) {
      return refuse(ncclInvalidUsage, fmt::format("device {} is named twice", on.back()));
    }
  }
  auto* clique = machine().make<Clique>(count);
  for (int rank = 0; rank < count; ++rank) {
    places[rank] = machine().make<ncclComm>(rank, on[static_cast<std::size_t>(rank)], true);
    if (const ncclResult_t bad = join(*clique, *places[rank], count)) return bad;
  }
  return ncclSuccess;
}

bool at_rest(const ncclComm& communicator) {
  return communicator.last_work == nullptr || communicator.last_work->passed.reached(1);
}

// NCCL lets go of a communicator only when no graph holds its collectives.
bool let_go(const ncclComm& communicator) { return communicator.recordings.load() <= 0; }

template <class Condition>
void wait_until(Condition condition) {
  while (!condition() && !world().over) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

ncclResult_t finalize_communicator(ncclComm& communicator) {
  if (communicator.finalized) return refuse(ncclInvalidArgument, "finalized twice");
  communicator.finalized = true;
  if (!communicator.blocking) return ncclInProgress;
  wait_until([&] { return at_rest(communicator) && let_go(communicator); });
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t communicator) {
  if (!live(communicator)) return refuse(ncclInvalidArgument, "no live communicator");
  wait_until([&] { return (at_rest(*communicator) || communicator->given_up()) && let_go(*communicator); });
  communicator->alive = false;
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t communicator) {
  if (!live(communicator)) return refuse(ncclInvalidArgument, "no live communicator");
  communicator->aborted.store(true);
  wait_until([&] { return let_go(*communicator); });
  for (Object* registration : communicator->registrations) registration->alive = false;
  communicator->alive = false;
  return ncclSuccess;
}

template <class T>
ncclResult_t ask(ncclComm_t communicator, T* result, T value) {
  if (result == nullptr) return refuse(ncclInvalidArgument, "no result");
  if (const ncclResult_t bad = ready(communicator)) return bad;
  *result = value;
  return ncclSuccess;
}

}  // namespace

ncclResult_t state_of(ncclComm& communicator) {
  if (communicator.clique != nullptr && communicator.clique->complete.reached(1)) {
    if (const ncclResult_t failed = failure_of(*communicator.clique)) return failed;
  } else {
    return ncclInProgress;
  }
  if (communicator.splitting != nullptr) {
    const std::lock_guard lock(communicator.clique->mutex);
    if (!complete(*communicator.splitting)) return ncclInProgress;
    communicator.splitting = nullptr;
  }
  if (communicator.pending) {
    if (communicator.looks_until_enqueued-- > 0) return ncclInProgress;
    return std::exchange(communicator.pending, nullptr)();
  }
  if (communicator.finalized && !(at_rest(communicator) && let_go(communicator))) return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ready(ncclComm_t communicator) {
  if (!live(communicator)) return refuse(ncclInvalidArgument, "no live communicator");
  const Clique* clique = communicator->clique;
  if (clique == nullptr || !clique->complete.reached(1) || communicator->splitting != nullptr ||
      communicator->pending) {
    return refuse(ncclInvalidArgument,
                  "used before what it was asked last is done (ncclCommGetAsyncError tells)");
  }
  if (communicator->finalized) return refuse(ncclInvalidUsage, "used after it was finalized");
  return failure_of(*clique);
}

}  // namespace cuda_double

using namespace cuda_double;

ncclResult_t ncclGetVersion(int* version) {
  return library_call<"ncclGetVersion", ncclResult_t>([&] {
    if (version == nullptr) return refuse(ncclInvalidArgument, "no result");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return library_call<"ncclGetUniqueId", ncclResult_t>([&] {
    if (id == nullptr) return refuse(ncclInvalidArgument, "no result");
    const std::lock_guard lock(world().mutex);
    *id = {};
    const std::string text = fmt::format("double {}", world().next_id++);
    std::memcpy(id->internal, text.data(), text.size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  return library_call<"ncclCommInitRank", ncclResult_t>(
      [&] { return init_rank(communicator, size, id, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return library_call<"ncclCommInitRankConfig", ncclResult_t>(
      [&] { return init_rank(communicator, size, id, rank, config); });
}

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* devices) {
  return library_call<"ncclCommInitAll", ncclResult_t>(
      [&] { return init_all(communicators, count, devices); });
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  return library_call<"ncclCommFinalize", ncclResult_t>([&] {
    const ncclResult_t bad = ready(communicator);
    return bad != ncclSuccess ? bad : finalize_communicator(*communicator);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return library_call<"ncclCommDestroy", ncclResult_t>([&] { return destroy(communicator); }, true);
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  return library_call<"ncclCommAbort", ncclResult_t>([&] { return abort(communicator); }, true);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* status) {
  return library_call<"ncclCommGetAsyncError", ncclResult_t>([&] {
    if (!live(communicator) || status == nullptr) return refuse(ncclInvalidArgument, "no live communicator");
    *status = state_of(*communicator);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  return library_call<"ncclCommCount", ncclResult_t>([&] {
    const bool known = live(communicator) && communicator->clique != nullptr;
    return ask(communicator, count, known ? communicator->clique->size() : 0);
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  return library_call<"ncclCommUserRank", ncclResult_t>(
      [&] { return ask(communicator, rank, live(communicator) ? communicator->rank : -1); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  return library_call<"ncclCommCuDevice", ncclResult_t>(
      [&] { return ask(communicator, device, live(communicator) ? communicator->device : -1); });
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = this_thread().refusal;
  return text.c_str();
}
