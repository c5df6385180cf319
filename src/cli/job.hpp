#pragma once

#include <memory>

#include "cluster/member.hpp"
#include "config/launch_environment.hpp"
#include "config/plan.hpp"
#include "report/result.hpp"
#include "strategy/strategy.hpp"
#include "train/orders.hpp"

namespace dtrain::cli {

// This process's place among those that a launcher started together. Alone, it has no member.
struct Job {
  config::LaunchEnvironment place;
  std::shared_ptr<cluster::Member> member;
  std::shared_ptr<train::Leader> leader;  // on the chief

  bool alone() const { return member == nullptr; }
  // Obeys the chief instead of deciding what to do.
  bool follows() const { return member != nullptr && member->rank() != 0; }
};

cluster::TlsFiles tls_files(const config::Options& options);

// Joins the others that a launcher started; returns when all are there.
std::shared_ptr<cluster::Member> join_job(const config::LaunchEnvironment& place,
                                          const config::Options& options);

// Finds out whether there are others and joins them; returns when all are there.
Job open_job(const config::Options& options, const strategy::Strategy& strategy);

// Deals every host's cores and GPUs to the workers on it, and tells all of all. Each worker's own come from
// its `inventory`, to which the list is added.
void share_inventory(const Job& job, config::Inventory& inventory, Seconds timeout);

// Gives all processes the layer costs that the chief measured: none other's clock counts, so that all cut
// models alike.
void share_layer_costs(const Job& job, config::Options& options, Seconds timeout);

// Usage error that names the flags (of the configuration, and the data) in which a process differs from the
// chief.
void require_same_work(const Job& job, const report::Result& planned, Seconds timeout);

// In order, the chief last; or not, where the job has ended by a loss.
void leave_job(const Job& job, Seconds timeout);

report::ClusterInfo describe(const Job& job);

}  // namespace dtrain::cli
