#include "datasets/batch_maker.hpp"

#include "base/error.hpp"
#include "datasets/augment.hpp"
#include "datasets/order.hpp"

namespace dtrain::datasets {

namespace {

void require_at_least(int value, int least, const char* what) {
  if (value < least) {
    throw usage_error(fmt::format("input pipeline: {} is {}", what, value),
                      fmt::format("it must be {} or more", least));
  }
}

Sharding checked_sharding(const PipelineConfig& config) {
  require_at_least(config.global_batch, 1, "global batch");
  require_at_least(config.replicas, 1, "number of replicas");
  require_at_least(config.accumulate, 1, "number of micro-steps");
  require_at_least(config.prefetch, 0, "number of micro-batches to prefetch");
  require_at_least(config.rank, 0, "rank");
  if (config.rank >= config.replicas) {
    throw usage_error(fmt::format("input pipeline: rank {} of {} replicas", config.rank, config.replicas),
                      "ranks count from 0");
  }
  const std::size_t size = config.dataset->size();
  const auto needed = static_cast<std::size_t>(config.keep_last ? 1 : config.global_batch);
  if (size < needed) {
    throw usage_error(
        fmt::format("global batch {} is larger than the {} images of {}: an epoch would have no step",
                    config.global_batch, size, config.dataset->name()),
        fmt::format("the largest global batch that fits is {}; --last-batch keep trains on what is there",
                    size));
  }
  return {.size = size,
          .global_batch = config.global_batch,
          .keep_last = config.keep_last,
          .replicas = config.replicas,
          .accumulate = config.accumulate};
}

}  // namespace

BatchSlot::BatchSlot(BatchContent content, int largest_batch) : labels(largest_batch) {
  const auto count = static_cast<std::size_t>(largest_batch);
  if (content == BatchContent::bytes) pixels = AlignedBuffer<std::uint8_t>(count * pixels_per_image);
  if (content == BatchContent::records) records = AlignedBuffer<std::int32_t>(count);
  if (content == BatchContent::nchw || content == BatchContent::nhwc) {
    images = AlignedBuffer<float>(count * pixels_per_image);
  } else {
    crops.resize(count);
  }
}

BatchMaker::BatchMaker(const PipelineConfig& config)
    : config_(config),
      sharding_(checked_sharding(config)),
      steps_per_epoch_(sharding_.steps_per_epoch()),
      normalisation_(kernels::Normalisation::from(channel_mean, channel_deviation)) {}

void BatchMaker::seek(std::int64_t step) {
  epoch_ = static_cast<int>(step / steps_per_epoch_);
  step_ = static_cast<int>(step % steps_per_epoch_);
  micro_step_ = 0;
}

void BatchMaker::make(BatchSlot& slot) {
  order_epoch();
  const OrderRange range = sharding_.micro_batch(step_, config_.rank, micro_step_);
  fill(slot, range);
  const bool last_of_step = micro_step_ + 1 == config_.accumulate;
  slot.batch = view(slot);
  slot.batch.count = range.count;
  slot.batch.step_images = sharding_.step_images(step_);
  slot.batch.epoch = epoch_;
  slot.batch.last_of_step = last_of_step;
  slot.batch.last_of_epoch = last_of_step && step_ + 1 == steps_per_epoch_;
  advance();
}

MicroBatch BatchMaker::view(const BatchSlot& slot) const {
  MicroBatch batch;
  batch.labels = slot.labels.data();
  switch (config_.content) {
    case BatchContent::nchw:
    case BatchContent::nhwc:
      batch.images = slot.images.data();
      return batch;
    case BatchContent::bytes:
      batch.pixels = slot.pixels.data();
      break;
    case BatchContent::records:
      batch.records = slot.records.data();
      break;
    case BatchContent::labels:
      return batch;
  }
  if (config_.augment) batch.crops = slot.crops.data();
  return batch;
}

void BatchMaker::fill(BatchSlot& slot, OrderRange range) {
  if (config_.content == BatchContent::nchw || config_.content == BatchContent::nhwc) {
    return fill_floats(slot, range);
  }
  for (int i = 0; i < range.count; ++i) {
    const std::uint32_t image = order_[range.first + i];
    if (config_.content == BatchContent::records) {
      slot.records.data()[i] = static_cast<std::int32_t>(image);
    } else if (config_.content == BatchContent::bytes) {
      std::memcpy(slot.pixels.data() + i * pixels_per_image, config_.dataset->pixels(image).data(),
                  pixels_per_image);
    }
    slot.labels.data()[i] = config_.dataset->label(image);
    if (config_.augment) {
      slot.crops[static_cast<std::size_t>(i)] = augmentation(config_.seed, epoch_, image);
    }
  }
}

void BatchMaker::fill_floats(BatchSlot& slot, OrderRange range) {
  const auto normalise =
      config_.content == BatchContent::nchw ? kernels::normalise_nchw : kernels::normalise_nhwc;
  alignas(64) std::uint8_t cropped[pixels_per_image];
  for (int i = 0; i < range.count; ++i) {
    const std::uint32_t image = order_[range.first + i];
    const std::uint8_t* pixels = config_.dataset->pixels(image).data();
    if (config_.augment) {
      kernels::crop_and_flip(pixels, cropped, augmentation(config_.seed, epoch_, image));
      pixels = cropped;
    }
    normalise(pixels, slot.images.data() + i * pixels_per_image, normalisation_);
    slot.labels.data()[i] = config_.dataset->label(image);
  }
}

void BatchMaker::advance() {
  if (++micro_step_ < config_.accumulate) return;
  micro_step_ = 0;
  if (++step_ < steps_per_epoch_) return;
  step_ = 0;
  ++epoch_;
}

void BatchMaker::order_epoch() {
  if (ordered_epoch_ == epoch_) return;
  order_ = epoch_order(sharding_.size, config_.seed, epoch_, config_.shuffle);
  ordered_epoch_ = epoch_;
}

}  // namespace dtrain::datasets
