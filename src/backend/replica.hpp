#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/options.hpp"
#include "kernels/optimizer.hpp"
#include "model/model.hpp"

namespace dtrain::backend {

// A part of a flat buffer.
struct Range {
  std::size_t offset = 0;
  std::size_t size = 0;
};

// Where a parameter lies in the replica's own flat buffers. The order inside a slot is the backend's (its
// primitives' favourite); padding elements are zero in weights and gradients and stay so under every
// optimizer.
struct Slot {
  int parameter = 0;  // index into Model::parameters
  Range range;
};

struct InputFormat {
  enum class Layout { nchw, nhwc };
  Layout layout = Layout::nchw;  // float32, normalised
};

// Images in InputFormat; both arrays belong to the caller and stay until the micro-step's backward has
// returned.
struct Batch {
  const float* images = nullptr;
  const std::int32_t* labels = nullptr;
  int count = 0;
};

struct BatchResult {
  double loss_sum = 0.0;  // over images, unscaled
  int correct = 0;
  int count = 0;
};

// Orders a collective after the work that made its data: an event on a GPU, nothing on a CPU, where calls are
// done when they return.
struct DeviceToken {
  void* event = nullptr;
};

// Told by backward as gradient buckets become final, in the order of Replica::buckets(). Must only enqueue or
// make progress, never wait.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void bucket_ready(int bucket, DeviceToken ready) = 0;
};

// A point on the device's time line, resolved to steady-clock nanoseconds after the device has passed it.
struct Mark {
  std::int64_t value = 0;
};

struct ReplicaConfig {
  const model::Model* model = nullptr;  // outlives the replica
  int max_batch = 0;                    // images in a micro-step, at most
  config::Precision precision = config::Precision::fp32;
  std::string optimizer = "adam";
  std::size_t bucket_bytes = 25'000'000;
  int slots = 1;  // micro-batches in flight
  int device = 0;
  std::vector<int> cores;  // CPU: the share of cores; empty = not pinned
  int threads = 1;
};

struct MemoryUse {
  std::size_t allocated =
      0;  // bytes that the replica asked for: weights, gradients, optimizer, activations, scratch
  std::size_t peak = 0;
};

// One copy of the model on one device. Belongs to one thread: the one that made it.
class Replica {
 public:
  virtual ~Replica() = default;

  virtual InputFormat input_format() const = 0;
  virtual std::span<const Slot> slots() const = 0;  // ascending in offset
  virtual std::span<const Range> buckets()
      const = 0;                             // last layer first; together they cover the flat buffer
  virtual std::span<float> weights() = 0;    // flat, fp32 master copy
  virtual std::span<float> gradients() = 0;  // flat, fp32, same offsets
  virtual std::span<float> optimizer_state(
      int index) = 0;                         // flat, same offsets; index < optimizer's state count
  virtual std::span<float> statistics() = 0;  // batch norms' running values, Model::statistics order

  // Canonical order, Model::parameters offsets.
  virtual void import_weights(std::span<const float> canonical) = 0;
  virtual void export_weights(std::span<float> canonical) = 0;
  virtual void export_gradients(std::span<float> canonical) = 0;

  // Optimizer state in the same order; index as in optimizer_state(). Here it is lent the weights' place,
  // which every backend can put in order; a backend may know a shorter way.
  virtual void import_optimizer_state(int index, std::span<const float> canonical);
  virtual void export_optimizer_state(int index, std::span<float> canonical);

  // Whether the values in a range of the flat buffer are finite.
  virtual bool gradients_finite(Range range);
  virtual bool weights_finite(Range range);
  // For a step in which this replica has no image.
  virtual void clear_gradients();

  // Micro-step. `gradient_scale` multiplies d(loss sum)/d(logits): 1 / images of the whole step (times the
  // loss scale), so that summing over replicas and micro-steps gives the mean. `first` overwrites gradients,
  // otherwise they add up; the sink is told of buckets only when `last`.
  virtual void forward(int slot, const Batch& batch) = 0;
  virtual void backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) = 0;
  virtual BatchResult result(int slot) = 0;

  // Optimizer over a range of the flat buffers. Returns false if a gradient in it was not finite.
  virtual bool update(Range range, const kernels::OptimizerStep& step) = 0;

  // Inference mode (running statistics), no gradients.
  virtual BatchResult evaluate(const Batch& batch) = 0;

  virtual Mark mark() = 0;
  virtual std::int64_t time_ns(Mark mark) = 0;
  virtual void synchronize(const Deadline& deadline) = 0;
  virtual MemoryUse memory() const = 0;
};

inline void Replica::import_optimizer_state(int index, std::span<const float> canonical) {
  std::vector<float> kept(canonical.size());
  export_weights(kept);
  import_weights(canonical);
  std::ranges::copy(weights(), optimizer_state(index).begin());
  import_weights(kept);
}

inline void Replica::export_optimizer_state(int index, std::span<float> canonical) {
  std::vector<float> kept(canonical.size());
  export_weights(kept);
  std::ranges::copy(optimizer_state(index), weights().begin());
  export_weights(canonical);
  import_weights(kept);
}

inline bool Replica::gradients_finite(Range range) {
  return kernels::all_finite(gradients().subspan(range.offset, range.size));
}

inline bool Replica::weights_finite(Range range) {
  return kernels::all_finite(weights().subspan(range.offset, range.size));
}

inline void Replica::clear_gradients() { std::ranges::fill(gradients(), 0.0F); }

}  // namespace dtrain::backend
