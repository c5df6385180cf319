#pragma once

#include <string>
#include <vector>

#include "predict/measured.hpp"
#include "predict/nonnegative.hpp"

namespace dtrain::predict {

// What one level of an all-reduce of B bytes costs among n members: `messages` x alpha + `bytes` x beta.
struct LevelCost {
  double messages = 0.0;
  double bytes = 0.0;
};

struct LevelLaw {
  std::string name;
  LevelCost (*cost)(int members, double bytes) = nullptr;
};

// ring                2 (n-1) messages, 2 (n-1)/n B bytes
// tree                2 ceil(log2 n) messages of B bytes, one after the other
// halving and doubling  2 ceil(log2 n) messages, 2 (n-1)/n B bytes where n is a power of two, else 2 B
// shared memory       one meeting; every member sums its share of all buffers for all: 2 B bytes in and out
// sum by one thread   of a worker among others: it reads and writes every buffer, 2 n B bytes
LevelLaw ring();
LevelLaw tree();
LevelLaw halving_doubling();
LevelLaw shared_memory();
LevelLaw sum_by_one();
LevelLaw as_gloo_chooses();  // by bytes and processes, ring or halving and doubling

// How an all-reduce goes: within each worker, then among workers.
struct Law {
  LevelLaw local;
  LevelLaw spanning;

  // For the unknowns {alpha, beta among workers, alpha, beta within one}; seconds. Replicas that share cores
  // take `load` times as long within a worker; among workers `sent_share` of the bytes is sent.
  Columns columns(const Placement& placement, double bytes, double sent_share, double load) const;
  // "ring"; "hierarchical: shared memory within a worker, ring among workers".
  std::string name(bool has_local, bool has_spanning) const;
};

}  // namespace dtrain::predict
