#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "base/units.hpp"
#include "cluster/member.hpp"

namespace dtrain::comm {

// One process's end of a group of processes: what a transport library can do. Every call blocks, and all
// processes make the same calls with the same sizes in the same order. One thread at a time, but for abort.
//
// Sums are the same bits on every process and in every run. A wait that passes its deadline, or loses a
// process, throws (JobEnded) naming the process as the job knows it; the exchange is then of no more use.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;  // in this group
  virtual int size() const = 0;

  virtual void all_reduce(std::span<float> data, const Deadline& deadline) = 0;
  // As Communicator's: this rank's share (shard_of) of the sum, or of the whole.
  virtual void reduce_scatter(std::span<float> data, const Deadline& deadline) = 0;
  virtual void all_gather(std::span<float> data, const Deadline& deadline) = 0;
  virtual void broadcast(std::span<float> data, int root, const Deadline& deadline) = 0;
  virtual void barrier(const Deadline& deadline) = 0;
  // Messages between two processes arrive in order. send keeps a copy, and waits only while the last 64 to
  // the same process have not been taken. Sending and receiving may each go on in a thread beside the others.
  virtual void send(std::span<const float> data, int to, const Deadline& deadline) = 0;
  virtual void receive(std::span<float> data, int from, const Deadline& deadline) = 0;

  // Bytes, for what is compressed. `all` holds size() pieces of mine.size() bytes, by rank.
  virtual void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all,
                                const Deadline& deadline) = 0;
  // Piece r of `to` goes to rank r; piece r of `from` comes from it. Pieces are of one size.
  virtual void all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from,
                                const Deadline& deadline) = 0;

  // Tells of memory that all-reduces will often be asked to work in, for as long as the exchange lives. All
  // processes tell of the same sizes in the same order.
  virtual void register_buffer(std::span<float>) {}
  // Those of `ranks` (ascending, of this group, with this one) as a group of their own; they alone call.
  virtual std::unique_ptr<Exchange> subgroup(const std::vector<int>& ranks, const std::string& name);

  // Ends the waits of this process, and may be called from any thread. The others' end through the job, which
  // abort does not tell.
  virtual void abort(const std::string& reason) = 0;
  // Handed to other processes so far, as Communicator counts.
  virtual std::uint64_t bytes_sent() const = 0;
  // "halving-doubling over TCP (10.0.0.1)": how an all-reduce of so many bytes is done, for the log.
  virtual std::string describe_all_reduce(std::size_t bytes) const = 0;
};

struct ExchangeConfig {
  cluster::Member* member = nullptr;  // outlives the exchange
  std::vector<int> members;           // ascending member ranks, this one among them
  std::string name;                   // tells the groups of a job apart
  std::string algorithm = "auto";     // --allreduce
  Seconds timeout{20.0};
  bool busy_cores = false;  // waits should sleep: there are more threads than cores
  // How far this member has announced to have come: who is behind it is named when a wait fails.
  std::function<cluster::Progress()> progress{};
};

// The configuration of a group of some of these processes.
ExchangeConfig subgroup_config(const ExchangeConfig& config, const std::vector<int>& ranks,
                               const std::string& name);

using ExchangeMaker = std::unique_ptr<Exchange> (*)(const ExchangeConfig&);

// Usage error, listing what is known, where no exchange has an all-reduce of this name.
void check_allreduce_algorithm(const std::string& name);

// What --allreduce can choose from, beside auto, where this communicator (a name of exchanges()) carries
// gradients; empty where it has one way only.
std::vector<std::string> allreduce_algorithms(const std::string& communicator);

// gloo, mpi
const Registry<ExchangeMaker>& exchanges();

}  // namespace dtrain::comm
