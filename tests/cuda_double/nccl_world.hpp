#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "machine.hpp"

// Communicators whose ranks are all in this process. A collective runs when every rank's stream has reached
// it; a stream whose peers do not come hangs until its communicator is aborted.
namespace cuda_double {

struct Reduction {
  ncclRedOp_t kind = ncclSum;
  double factor = 1.0;  // of every rank's values, before they are summed
  bool operator==(const Reduction&) const = default;
};

// One rank's part of a collective.
struct Contribution {
  std::string name;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  Reduction reduction;
  int root = 0;

  bool matches(const Contribution& other) const;
};

struct Round {
  explicit Round(int ranks) : contributions(static_cast<std::size_t>(ranks)) {}

  std::vector<Contribution> contributions;
  std::vector<std::byte> result;
  int arrived = 0;
  int left = 0;
  bool dead = false;  // a rank went before all had come
  Signal complete;    // all have come
  Signal finished;    // by rank: it has read what it needs of the others
};

// From one rank to another.
struct Message {
  const void* data = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  bool claimed = false;
  bool dead = false;
  Signal posted;
  Signal taken;
};
struct Channel {
  std::map<std::uint64_t, Message> messages;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

struct SplitRequest {
  ncclComm* child = nullptr;
  int color = NCCL_SPLIT_NOCOLOR;
  int key = 0;
  bool made = false;
};

struct Clique : Object {
  explicit Clique(int size) : Object("clique"), ranks(static_cast<std::size_t>(size), nullptr) {
    owned_by_program = false;
  }
  int size() const { return static_cast<int>(ranks.size()); }
  void fail(ncclResult_t status, const std::string& reason);  // for all ranks; with the mutex
  Round& round(std::uint64_t which);                          // with the mutex

  std::mutex mutex;
  std::vector<ncclComm*> ranks;  // as they join
  int joined = 0;
  Signal complete;  // all have joined
  std::atomic<int> failure{ncclSuccess};
  std::string reason;
  std::map<std::uint64_t, Round> rounds;
  std::map<std::pair<int, int>, Channel> channels;
  std::map<std::uint64_t, std::vector<SplitRequest>> splits;
};

struct NcclWorld {
  std::mutex mutex;
  std::map<std::string, Clique*> cliques;  // by unique id
  std::uint64_t next_id = 1;
  std::atomic<std::uint64_t> hung_ranks{0};
  std::atomic<bool> over{false};

  void abort_all() { over.store(true); }
  void hang(int rank) { hung_ranks.fetch_or(std::uint64_t{1} << rank); }
  void release() { hung_ranks.store(0); }
  bool hung(int rank) const { return (hung_ranks.load(std::memory_order_relaxed) >> rank & 1U) != 0; }
};

}  // namespace cuda_double

struct ncclComm : cuda_double::Object {
  ncclComm(int rank, int device, bool blocking);

  int rank;
  int device;
  bool blocking;
  cuda_double::Clique* clique = nullptr;
  std::atomic<bool> aborted{false};
  std::atomic<int> recordings{0};            // graphs that hold its collectives
  std::atomic<std::uint64_t> next_round{0};  // as its streams get there
  std::uint64_t splits = 0;
  bool finalized = false;
  bool connected = false;  // its first operation has been enqueued

  // A communicator that does not block enqueues its first operation while it is asked for its state.
  std::function<ncclResult_t()> pending;
  int looks_until_enqueued = 0;
  const std::vector<cuda_double::SplitRequest>* splitting = nullptr;

  CUstream_st* last_stream = nullptr;
  const cuda_double::Moment* last_work = nullptr;
  std::vector<cuda_double::Reduction> reductions;  // made by the program
  std::vector<cuda_double::Object*> registrations;

  bool given_up() const {
    return aborted.load(std::memory_order_relaxed) || cuda_double::machine().nccl->over;
  }
};

namespace cuda_double {

// Is it still joining, splitting, connecting or finalizing, or what went wrong? Asking may enqueue.
ncclResult_t state_of(ncclComm& communicator);
ncclResult_t ready(
    ncclComm_t communicator);  // refused unless it is live and done with what it was asked before

// On a stream's thread.
void take_part(ncclComm& communicator, const Contribution& own);
struct Transfer {
  bool send = false;
  void* data = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int peer = 0;
};
void transfer(ncclComm& communicator, const std::vector<Transfer>& together);

std::size_t bytes_of(ncclDataType_t type);  // 0: not modelled
bool can_be_reduced(ncclDataType_t type);

// Of a group: what was called between its start and its end, by this thread.
bool in_group();
// Waits, at the end of the group if there is one, until `done` says so.
ncclResult_t settle(std::function<bool()> done, std::function<ncclResult_t()> outcome,
                    const char* waiting_for);

}  // namespace cuda_double
