#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "predict/law.hpp"
#include "predict/link.hpp"
#include "predict/measured.hpp"
#include "predict/sweep.hpp"
#include "predict/timeline.hpp"
#include "report/result.hpp"

namespace dtrain::predict {

struct Request {
  std::string file;             // the result's, to name it by; may be empty
  std::vector<int> replicas;    // each from 1 to largest_replicas
  std::optional<Link> link;     // between hosts; none = as measured
  std::optional<int> per_host;  // replicas on a host, with a link; none = as many as were measured on one
  std::vector<Sweep> sweeps;
  std::optional<model::Model> model;  // another one than was measured; none = that one
};

inline constexpr int largest_replicas = 1'000'000;

// What a user could set otherwise: how gradients are exchanged.
struct Exchange {
  std::vector<Bucket> buckets;
  bool overlap = true;      // buckets are sent while backward goes on, and somebody else's time goes into it
  int sync_every = 1;       // steps
  double sent_share = 1.0;  // of the bytes, among workers
};

// What does not change from one draw of the measurement to another.
struct Setup {
  bool strong = false;
  double global_images = 0.0;   // a step, under strong scaling
  double replica_images = 0.0;  // a step, under weak scaling
  int accumulate = 1;
  int places = 1;               // replicas that a host can run without sharing
  std::string place;            // what they would share: core, GPU
  Placement largest;            // of the largest measured N
  std::optional<int> per_host;  // with a link
  std::optional<Link> link;
  bool compresses = false;
  bool can_overlap = false;    // collectives go on beside the backward pass where --overlap asks for it
  Exchange exchange;           // of the runs
  Exchange target_exchange;    // with another model its buckets, else the same
  bool another_model = false;  // is asked for than was measured
  std::optional<model::Model> target_model;  // none: it is not known what layers it has
  double target_work = 1.0;                  // its computation / that of the measured one
  std::vector<LevelLaw> local_laws;
  std::vector<LevelLaw> spanning_laws;  // the communicator's own first
  bool law_known = false;               // the first one is what the communicator says that it does
  std::vector<Sweep> sweeps;            // that can be used
  bool runs_tell_local = false;         // no sweep tells of replicas within a worker, so that the runs must
  std::vector<std::string> notes;

  bool has_local() const { return largest.per_worker() > 1 || per_host.value_or(1) > 1; }
  bool has_spanning() const { return link.has_value() || largest.workers > 1; }
  double load(const Placement& placement) const;  // replicas for each place, at least 1
  Placement place_replicas(int replicas) const;   // where N replicas would be
  double images_of_replica(int replicas) const;   // a step, of the one with most
  double images(int replicas) const;              // a step, of all
};

// Usage error for a result of a strategy that does not sum gradients by all-reduce.
void require_all_reduce(const report::Result& result);

// Usage error for what cannot be: an unknown model, fewer images than replicas. Data error as fitting_sweeps
// has it.
Setup make_setup(const report::Result& result, const Measured& measured, const Request& request);

}  // namespace dtrain::predict
