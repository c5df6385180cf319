#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/replica.hpp"
#include "base/random.hpp"

namespace dtrain::testing {

class NoSink final : public backend::GradientSink {
 public:
  void bucket_ready(int, backend::DeviceToken) override {}
};

// Random records and labels.
struct Records {
  explicit Records(int count, std::uint64_t seed = 1)
      : pixels(static_cast<std::size_t>(count) * datasets::pixels_per_image),
        labels(static_cast<std::size_t>(count)) {
    Random random(seed);
    for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(10));
  }
  backend::Batch part(int first, int count) const {
    return {.labels = labels.data() + first,
            .pixels = pixels.data() + static_cast<std::size_t>(first) * datasets::pixels_per_image,
            .count = count};
  }
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
};

// One step as the engine takes it: run, synchronize, result.
class Stepper {
 public:
  explicit Stepper(backend::Replica& replica) : replica_(&replica) { micro_.update.step = 0; }

  backend::BatchResult step(const backend::Batch& batch, double learning_rate, bool record = true) {
    micro_.batch = batch;
    micro_.gradient_scale = 1.0F / static_cast<float>(batch.count);
    micro_.update.learning_rate = learning_rate;
    ++micro_.update.step;
    const auto work = [this] { enqueue(); };
    replica_->run(micro_, record, work);
    replica_->synchronize(Deadline::in(Seconds(20.0)));
    return replica_->result(0);
  }
  int enqueued = 0;  // how often it was called, rather than replayed
  std::vector<backend::Mark> marks;

 private:
  void enqueue() {
    ++enqueued;
    marks = {replica_->mark()};
    replica_->forward(0, micro_.batch);
    marks.push_back(replica_->mark());
    replica_->backward(0, micro_.gradient_scale, micro_.first, micro_.last, sink_);
    replica_->update({0, replica_->weights().size()}, micro_.update, false);
    marks.push_back(replica_->mark());
  }

  backend::Replica* replica_;
  backend::MicroStep micro_;
  NoSink sink_;
};

}  // namespace dtrain::testing
