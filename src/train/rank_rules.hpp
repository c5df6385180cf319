#pragma once

#include <memory>

#include "backend/replica.hpp"
#include "comm/communicator.hpp"
#include "datasets/pipeline.hpp"
#include "kernels/optimizer.hpp"
#include "strategy/strategy.hpp"
#include "train/world.hpp"

// What a rank of the step loop and one of a custom loop go by alike.
namespace dtrain::train {

// Which images a rank takes; without the data set and what a batch is to hold.
datasets::PipelineConfig pipeline_of_rank(const WorldConfig& world, const strategy::Assignment& assignment,
                                          int rank);

// What its batches hold for a replica that reads this.
datasets::BatchContent content_for(backend::InputFormat format);

// Its place in the group, with the gradients that go through it; null without a group.
std::unique_ptr<comm::Communicator> join_group(comm::LocalGroup* group, int rank, backend::Replica& replica);

// What its strategy works with, as far as the world says it.
strategy::RankContext context_of_rank(const WorldConfig& world, int rank);

// Gradients are divided by the images of all replicas that share the update.
int images_of_update(const WorldConfig& world, const strategy::Assignment& assignment, int step_images);

// `updates` were made before; gradients carry `scale`.
kernels::OptimizerStep optimizer_step(const config::Options& options, double learning_rate, double scale,
                                      std::int64_t updates);

}  // namespace dtrain::train
