#pragma once

#include "backend/replica.hpp"
#include "datasets/pipeline.hpp"

namespace dtrain::train {

// What the pipeline prepared, as the replica takes it.
inline backend::Batch batch_of(const datasets::MicroBatch& micro) {
  return {.images = micro.images,
          .labels = micro.labels,
          .pixels = micro.pixels,
          .records = micro.records,
          .crops = micro.crops,
          .count = micro.count};
}

}  // namespace dtrain::train
