#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/member.hpp"
#include "train/failure.hpp"

namespace dtrain::train {

// What the chief tells the other processes of its job to do. They all train by the same command line, so that
// the name of a run is enough to say which.
struct Order {
  enum class Kind : int {
    build,     // the run's replicas
    join,      // the group; `number` is the size of a flat buffer
    run,       // `number` steps
    evaluate,  // `number`: 1 the test set, 0 the training set; `payload`: statistics
    describe,  // `number`: 1 with hashes of weights
    load,      // `payload`: the numbers of a training state
    drop,      // the run
    end,       // the job, in order; `payload`: why it failed, if it did
  };
  Kind kind = Kind::end;
  std::string run;   // its id in the plan
  std::string name;  // of this making of it: never used twice in a job
  std::int64_t number = 0;
  std::string payload;
  std::vector<int> members;  // that are to answer, ascending
};

std::string name(Order::Kind kind);

// What came of an order in one process.
struct Answer {
  std::optional<Failure> failure;
  std::string payload;
};

// The chief's end. Orders are obeyed one after the other; every one is answered before the next is given.
class Leader {
 public:
  explicit Leader(cluster::Member& member) : member_(&member) {}

  // A name for this making of a run.
  std::string name_run(const std::string& run) { return fmt::format("{}.{}", run, ++runs_); }

  // Returns the number of the order.
  std::uint64_t give(const Order& order);
  // The answers to the last order, by member. Waits as long as the members live. Throws
  // the cause where one of them failed.
  std::map<int, std::string> collect();
  // Tells all to go, and why if `failure` is not null. Nobody is told anything after that.
  void end(const Failure* failure);

 private:
  cluster::Member* member_;
  std::uint64_t serial_ = 0;
  std::uint64_t runs_ = 0;
  Order last_;
  bool ended_ = false;
};

// The others' end.
class Orders {
 public:
  explicit Orders(cluster::Member& member) : member_(&member) {}
  Order next();                                     // waits as long as the chief lives
  std::uint64_t number() const { return serial_; }  // of the last
  void answer(const Answer& answer);

 private:
  cluster::Member* member_;
  std::uint64_t serial_ = 0;
};

std::string pack(const Failure& failure);
Failure unpack_failure(const std::string& bytes);

}  // namespace dtrain::train
