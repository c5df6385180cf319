#pragma once

#include <vector>

#include "model/cut.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Who does what in a run of several devices: pipelines side by side, each over consecutive ranks, so that the
// stages of one meet inside of a process wherever its worker has room for them.
struct PipelineShape {
  int stages = 1;
  int pipelines = 1;
  int micro_batches = 1;  // that a pipeline's images of a micro-step are cut into; fewer where it has fewer
                          // images
  int stage_of(int rank) const { return rank % stages; }
  int pipeline_of(int rank) const { return rank / stages; }
};

// That a pipeline has in a run of so many devices: as asked, or all of them where there are fewer.
int stages_of(const config::Options& options, int devices);

// Usage error if the devices are no whole number of pipelines, or too few for what was asked in the largest
// run of options.replicas.
PipelineShape pipeline_shape(const config::Options& options, int devices);

// Of this run: as named if it has as many stages as that, else by cost.
std::vector<model::CutPoint> pipeline_cuts(const config::Options& options, const model::Model& model,
                                           int stages);

// Seconds, or operations where nothing was measured, by layer.
std::vector<double> layer_costs(const config::Options& options, const model::Model& model);

Assignment assign_stage(const AssignmentContext& context);

// Images in each of a pipeline's micro-batches, largest first; none of them is empty.
std::vector<int> micro_batch_images(int images, int micro_batches);

}  // namespace dtrain::strategy
