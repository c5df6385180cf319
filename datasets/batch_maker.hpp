#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "datasets/pipeline.hpp"
#include "datasets/shard.hpp"
#include "kernels/normalise.hpp"

namespace dtrain::datasets {

// Room for one micro-batch.
struct BatchSlot {
  BatchSlot(BatchContent content, int largest_batch);

  AlignedBuffer<float> images;
  AlignedBuffer<std::uint8_t> pixels;
  AlignedBuffer<std::int32_t> records;
  AlignedBuffer<std::int32_t> labels;
  std::vector<kernels::Crop> crops;
  MicroBatch batch;
};

// Makes a rank's micro-batches one after the other, on whatever thread calls it.
class BatchMaker {
 public:
  explicit BatchMaker(const PipelineConfig& config);  // usage error when the numbers do not fit

  void make(BatchSlot& slot);
  void seek(std::int64_t step);
  int steps_per_epoch() const { return steps_per_epoch_; }
  int largest_batch() const { return sharding_.largest_micro_batch(config_.rank); }

 private:
  void fill(BatchSlot& slot, OrderRange range);
  void fill_floats(BatchSlot& slot, OrderRange range);
  MicroBatch view(const BatchSlot& slot) const;
  void advance();
  void order_epoch();

  PipelineConfig config_;
  Sharding sharding_;
  int steps_per_epoch_;
  kernels::Normalisation normalisation_;
  std::vector<std::uint32_t> order_;
  int ordered_epoch_ = -1;
  int epoch_ = 0;
  int step_ = 0;  // in the epoch
  int micro_step_ = 0;
};

}  // namespace dtrain::datasets
