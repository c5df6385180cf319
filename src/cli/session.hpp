#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/job.hpp"
#include "config/plan.hpp"
#include "datasets/dataset.hpp"
#include "model/model.hpp"
#include "report/result.hpp"
#include "train/world.hpp"

namespace dtrain::cli {

// All that a command which trains works with: looked up, checked against each other and against the machine
// before the first step.
struct Session {
  config::Options options;  // as used: defaults filled in
  config::Options exact;    // the same for runs with exact sums in every step
  Job job;
  config::Inventory inventory;
  std::shared_ptr<const backend::Backend> backend;
  std::shared_ptr<const model::Model> model;
  datasets::Cifar10 data;
  config::Plan plan;
  std::string local_communicator;  // of runs that are all in this process; options.comm is that of the others
  std::vector<std::string> warnings;
};

using MakePlan = config::Plan (*)(const config::Options&, const config::Inventory&, const config::SharesOf&);

// A plan's config::SharesOf.
int shares_of_strategy(const config::Options& options, int replicas);

// Throws usage, environment or data errors. Outputs are opened (and made) unless this is a dry run.
Session open_session(config::Options options, MakePlan make_plan);

// Images of an epoch in steps of this run's global batch.
int steps_per_epoch(const Session& session, const config::RunPlan& run);

// `total_steps` as in ScheduleConfig: 0 where the end is not known. Delays, display and stop flag are the
// caller's.
train::WorldConfig world_config(const Session& session, const config::RunPlan& run, std::int64_t total_steps);

// What a replica of this run will take.
std::size_t replica_bytes(const Session& session, const config::RunPlan& run);

// A result with everything but samples and summary. The dataset's checksum is left out: it takes time that
// the first step should not wait for.
report::Result start_result(const Session& session, const std::string& command_line);

// Works out the summary of what has been measured so far.
void summarise(report::Result& result);

// Fills in the summary and, as the work is over, the checksum.
void finish_result(report::Result& result, const Session& session);

}  // namespace dtrain::cli
