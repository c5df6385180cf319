#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// How messages call the worker of each rank, where there are several: "worker 1 (host:port)".
struct PipelineWorkers final : Shared {
  std::vector<std::string> by_rank;
};

// One stage of one pipeline. Environment error, naming the worker, if processors differ so that the same
// stage keeps its weights in another order elsewhere.
std::unique_ptr<RankStrategy> make_pipeline_rank(const RankContext& context);

}  // namespace dtrain::strategy
