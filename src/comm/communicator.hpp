#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/replica.hpp"
#include "base/registry.hpp"
#include "base/units.hpp"

namespace dtrain::comm {

// Identifies a collective that was started; tickets of one communicator count up.
using Ticket = std::uint64_t;

// One rank's end of a group. It belongs to one thread; only abort may be called from another. All ranks must
// start the same collectives in the same order and with the same sizes; what was started is finished in that
// order. Sums are taken in rank order whatever the timing, so results are the same bits on every rank and in
// every run.
//
// Waits make progress with this communicator's collectives, not with those of others (of a group it was split
// from). A wait that passes its deadline throws a run error naming the lowest rank that did not come. After
// any failure the group is of no more use: every call of every rank fails at once with the first failure's
// message.
//
// Buffers given to a collective stay until it is finished, or until a call has thrown: no other rank touches
// them after that. A rank that leaves early must call abort, or destroy its communicator, before it frees
// them.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place, asynchronous: never waits, however many collectives are in flight. `data` must stay until
  // wait().
  virtual Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) = 0;
  // Does what can be done for started collectives without waiting.
  virtual void progress() = 0;
  // Returns when this collective and all that were started before it are finished; on a device's stream, when
  // they are ordered before whatever is enqueued there from now on.
  virtual void wait(Ticket ticket, const Deadline& deadline) = 0;
  // Whether all_reduce and wait do nothing but enqueue work on a device: such a step can be recorded.
  virtual bool only_enqueues() const { return false; }
  // Returns when all that was started is really done, or throws what became of it.
  virtual void synchronize(const Deadline&) {}
  // Tells of memory that collectives will often be asked to work in, for as long as the communicator lives.
  virtual void register_buffer(std::span<float>) {}

  // Blocking, and after all collectives that were started before. reduce_scatter leaves this rank's share
  // (shard_of) of the sum in `data`, the rest undefined; all_gather fills `data` from every rank's share.
  virtual void reduce_scatter(std::span<float> data, const Deadline& deadline) = 0;
  virtual void all_gather(std::span<float> data, const Deadline& deadline) = 0;
  // The same two, started as all_reduce is and finished by wait; a communicator that cannot do so is done
  // with them when it returns.
  virtual Ticket start_reduce_scatter(std::span<float> data, const Deadline& deadline);
  virtual Ticket start_all_gather(std::span<float> data, const Deadline& deadline);
  // Returns when `data` of this collective, and of all that were started before it, is what it is to be on
  // this rank. Others may still be reading this rank's share: before wait it must stay as it is.
  virtual void wait_for_own(Ticket ticket, const Deadline& deadline) { wait(ticket, deadline); }
  virtual void broadcast(std::span<float> data, int root, const Deadline& deadline) = 0;
  virtual void barrier(const Deadline& deadline) = 0;
  // Every rank gives the same number of values; the result holds them in rank order.
  virtual std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& deadline) = 0;

  // Messages between two ranks arrive in order. send holds one message for a receiver that is not there yet,
  // and waits only while that one has not been taken, so that neighbours may send to each other first.
  // receive must ask for the length that was sent.
  virtual void send(std::span<const float> data, int to, const Deadline& deadline) = 0;
  virtual void receive(std::span<float> data, int from, const Deadline& deadline) = 0;

  // Tells all other ranks that this one is gone and why: their waits end at once, naming it. Groups that were
  // split from this one end too.
  virtual void abort(const std::string& reason) = 0;

  // Ranks that give the same colour form a group, ordered by rank here. Blocking.
  virtual std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) = 0;

  // Bytes this rank handed to others so far, by the algorithm's own count, for N ranks and B bytes of data:
  // all-reduce 2 (N-1)/N B; reduce-scatter and all-gather (N-1)/N B; broadcast (N-1) B at the root, else 0;
  // send B; all_gather_values (N-1) B; barrier 0. Collectives count when they start, fractions round down.
  virtual std::uint64_t bytes_sent() const = 0;
  // What it would have been without compression.
  virtual std::uint64_t bytes_uncompressed() const { return bytes_sent(); }
};

inline Ticket Communicator::start_reduce_scatter(std::span<float> data, const Deadline& deadline) {
  reduce_scatter(data, deadline);
  return all_reduce(data.first(0), {});
}

inline Ticket Communicator::start_all_gather(std::span<float> data, const Deadline& deadline) {
  all_gather(data, deadline);
  return all_reduce(data.first(0), {});
}

// The part of [0, size) that belongs to a rank: multiples of 16 floats (a cache line), the last one shorter.
backend::Range shard_of(std::size_t size, int rank, int ranks);

// A group of ranks inside one process: make it once, then every rank's thread joins.
class LocalGroup {
 public:
  virtual ~LocalGroup() = default;
  // Once for each rank, in any order, from any thread; waits for nobody. Communicators may outlive the group.
  // `stream` is that of the rank's replica.
  virtual std::unique_ptr<Communicator> join(int rank, backend::DeviceStream stream) = 0;
  std::unique_ptr<Communicator> join(int rank) { return join(rank, {}); }
};

struct LocalGroupConfig {
  int size = 1;
  bool oversubscribed = false;  // more ranks than cores: waits sleep after a short spin
};

using LocalGroupMaker = std::unique_ptr<LocalGroup> (*)(const LocalGroupConfig&);

const Registry<LocalGroupMaker>& local_communicators();  // shared_memory, nccl, cuda_local

// All names that --comm takes, but for auto: of those in local_communicators() and of exchanges().
struct CommunicatorKind {
  bool on_gpus = false;
  bool in_process = false;       // between replicas of one process
  bool between_workers = false;  // between processes
};
const Registry<CommunicatorKind>& communicators();

struct CommunicatorChoice {
  std::string asked = "auto";
  std::string device = "cpu";   // or "cuda"
  bool share_devices = false;   // several replicas on a GPU
  bool spans_workers = false;   // ranks of several processes
  bool started_by_mpi = false;  // and mpirun started them: see started_by_mpi() in comm/mpi/exchange.hpp
};

// The registered name. "auto" is shared_memory on cores, nccl on GPUs and cuda_local where replicas share a
// GPU; between workers on cores, mpi where mpirun started them and its module loads, else gloo. Usage or
// environment error where what was asked for cannot serve.
std::string choose_communicator(const CommunicatorChoice& choice);
std::string choose_communicator(const std::string& asked, const std::string& device, bool share_devices);

}  // namespace dtrain::comm
