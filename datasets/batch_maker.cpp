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
  slot.batch = {.images = slot.images.data(),
                .labels = slot.labels.data(),
                .count = range.count,
                .step_images = sharding_.step_images(step_),
                .epoch = epoch_,
                .last_of_step = last_of_step,
                .last_of_epoch = last_of_step && step_ + 1 == steps_per_epoch_};
  advance();
}

void BatchMaker::fill(BatchSlot& slot, OrderRange range) {
  const auto normalise =
      config_.layout == ImageLayout::nchw ? kernels::normalise_nchw : kernels::normalise_nhwc;
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
