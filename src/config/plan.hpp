#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/options.hpp"

namespace dtrain::config {

// What one worker of a job offers its replicas: its share of its host.
struct WorkerInventory {
  std::string host;        // the same for workers that share cores
  std::vector<int> cores;  // in the order replicas take them
  std::vector<int> gpus;
};

// What the machine offers, found by the backends and handed over as plain values.
struct Inventory {
  std::string device;         // "cpu" or "cuda": what `--device` resolved to
  std::string device_reason;  // one sentence: why that one
  std::vector<int> cores;     // logical processors this process may run on, in the order replicas take them
  double cpu_quota = 0.0;     // cores the control group allows; 0 = no limit
  int gpus = 0;
  std::size_t free_memory = 0;             // bytes
  std::vector<WorkerInventory> workers{};  // of a job, in rank order; empty = this process is alone
};

// One configuration to measure. Every N of a sweep is one, and so is the plain loop on one device.
struct RunPlan {
  enum class Base { none, plain, strategy };  // which base of the scaling table this run is, if any

  std::string id;  // "plain", "mirrored-1", "mirrored-4"
  std::string strategy;
  Base base = Base::none;
  bool exact = false;  // sums are exact and in every step, whatever was asked: what the run that was asked is
                       // held against
  int replicas = 1;
  int global_batch = 0;            // images a step, accumulation included
  std::vector<int> replica_batch;  // images a micro-step, by rank: the largest of them sizes the buffers
  bool simulated = false;          // replicas share a device or core: never called scaling
  std::string simulated_reason;
  std::vector<int> workers;             // that hosts it, by rank, ascending; empty = all in this process
  std::vector<int> devices;             // GPU by rank; empty = CPU replicas
  std::vector<std::vector<int>> cores;  // by rank; empty = not pinned (more replicas than cores)
};

struct Plan {
  Scaling scaling = Scaling::weak;
  std::vector<RunPlan> runs;  // plain base first, then ascending in replicas
  std::vector<std::string> notes;
};

// Into how many shares options.strategy deals a step's images over so many replicas: 1 to replicas, and
// consecutive ranks have the same one. From whoever knows the strategies.
using SharesOf = std::function<int(const Options& options, int replicas)>;
inline int a_share_each(const Options&, int replicas) { return replicas; }

// Checks the options as a whole against the machine and each other. Throws a usage error (impossible
// combination, with the nearest possible one) or an environment error (device that is not there) before
// anything is allocated.
Plan make_bench_plan(const Options& options, const Inventory& inventory,
                     const SharesOf& shares = a_share_each);

// One run at the asked N (the largest where several were given), for `train`.
Plan make_train_plan(const Options& options, const Inventory& inventory,
                     const SharesOf& shares = a_share_each);

// Gives the run a global batch, in so many shares, and its ranks what they take of it.
void deal_batch(RunPlan& run, int global_batch, int accumulate, int shares);

// How many of `total` images rank takes: shares differ by one at most, larger shares first.
int share_of(int total, int rank, int replicas);

}  // namespace dtrain::config
