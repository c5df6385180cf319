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

// Identifies a collective that was started; tickets of one communicator count up, and collectives finish in
// any order.
using Ticket = std::uint64_t;

// One rank's end of a group. All ranks must start the same collectives in the same order. Sums are taken in
// rank order whatever the timing, so results are the same bits on every rank and in every run.
//
// Waits throw a run error that names the first rank which did not come, after the deadline.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place, asynchronous: `data` must stay until wait() returns.
  virtual Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) = 0;
  // Does what can be done for started collectives without waiting.
  virtual void progress() = 0;
  virtual void wait(Ticket ticket, const Deadline& deadline) = 0;

  // Blocking. reduce_scatter leaves this rank's share (shard_of) of the sum in `data`, the rest undefined;
  // all_gather fills `data` from every rank's share.
  virtual void reduce_scatter(std::span<float> data, const Deadline& deadline) = 0;
  virtual void all_gather(std::span<float> data, const Deadline& deadline) = 0;
  virtual void broadcast(std::span<float> data, int root, const Deadline& deadline) = 0;
  virtual void send(std::span<const float> data, int to, const Deadline& deadline) = 0;
  virtual void receive(std::span<float> data, int from, const Deadline& deadline) = 0;
  virtual void barrier(const Deadline& deadline) = 0;

  // Tells all other ranks that this one is gone and why: their waits end at once, naming it.
  virtual void abort(const std::string& reason) = 0;

  // Ranks that give the same colour form a group, ordered by rank here.
  virtual std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) = 0;

  // Bytes this rank handed to others so far, by the algorithm's own count.
  virtual std::uint64_t bytes_sent() const = 0;
};

// The part of [0, size) that belongs to a rank: multiples of a cache line, the last one shorter.
backend::Range shard_of(std::size_t size, int rank, int ranks);

// A group of ranks inside one process: make it once, then every rank's thread joins.
class LocalGroup {
 public:
  virtual ~LocalGroup() = default;
  virtual std::unique_ptr<Communicator> join(int rank) = 0;
};

struct LocalGroupConfig {
  int size = 1;
  bool oversubscribed = false;  // more ranks than cores: waits sleep after a short spin
};

using LocalGroupMaker = std::unique_ptr<LocalGroup> (*)(const LocalGroupConfig&);

const Registry<LocalGroupMaker>& local_communicators();  // shared_memory

}  // namespace dtrain::comm
