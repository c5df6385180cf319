#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "config/options.hpp"
#include "datasets/dataset.hpp"
#include "kernels/normalise.hpp"
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

// What a replica wants to be fed with.
enum class InputFormat {
  nchw,     // float32 images, normalised
  bytes,    // records of 3072 bytes, planes of red, green and blue: the device normalises and augments
  records,  // numbers of records of the dataset that the device holds (hold_dataset)
};

// Images in the replica's InputFormat. The arrays belong to the caller and stay until the micro-step's
// backward has returned, or until prefetch has taken them.
struct Batch {
  const float* images = nullptr;          // nchw
  const std::int32_t* labels = nullptr;   // nchw, bytes
  const std::uint8_t* pixels = nullptr;   // bytes
  const std::int32_t* records = nullptr;  // records
  const kernels::Crop* crops = nullptr;   // bytes, records: null = images as they are
  int count = 0;
};

// Of the micro-steps of one step.
struct BatchResult {
  double loss_sum = 0.0;  // over images, unscaled
  int correct = 0;
  int count = 0;
};

// What became of a step's gradients.
struct StepOutcome {
  bool own_finite = true;      // this replica's, before they met the others' (with check_buckets only)
  bool applied = true;         // all that the update used were finite
  bool weights_finite = true;  // after the update
};

// The time line of a device that works while the host goes on.
struct DeviceStream {
  int device = -1;         // -1: there is none, calls are done when they return
  void* stream = nullptr;  // cudaStream_t
};

// Orders a collective after the work that made its data: an event on a GPU, nothing on a CPU, where calls are
// done when they return.
struct DeviceToken {
  void* event = nullptr;
};

// One pass over a micro-batch with all its numbers, for backends that record a step once and replay it.
struct MicroStep {
  Batch batch;
  float gradient_scale = 1.0F;
  int step_images = 0;  // of the whole step, over all replicas: tells kinds of steps apart, on all alike
  int index = 0;        // in its step
  bool first = true;    // gradients are overwritten
  bool last = true;     // buckets are announced, and the update follows
  kernels::OptimizerStep update;
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

// What layers of a model that is split over ranks ask of the others. Calls block; they throw as communicators
// do.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(std::span<float> data) = 0;
  // Equal shares, one after the other by rank; this rank's is in its place. A share is a multiple of 16
  // floats.
  virtual void all_gather(std::span<float> data) = 0;
};

// Told by a replica whose weights come and go: before a layer computes with its parameters, forward or
// backward, and when it has. Ranges are those of the layer's slots.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual void need(Range weights) = 0;
  virtual void done(Range weights) = 0;
};

enum class FlatBuffer { weights, gradients, optimizer };

struct ReplicaConfig {
  const model::Model* model = nullptr;  // outlives the replica
  int max_batch = 0;                    // images in a micro-step, at most
  bool gives_loss = true;               // false: a stage of a pipeline, whose output is another's input
  bool wants_input_gradient = false;    // a stage of a pipeline that is not the first
  bool sharded = false;                 // memory of flat buffers comes and goes (release)
  int shares = 1;                       // sharded: ranks that state is spread over
  int zero_stage = 0;                   // sharded: 1 optimizer states, 2 gradients as well, 3 weights as well
  bool whole_gradients = false;         // sharded: gradients are only told when all are there
  int replicas = 1;                     // devices that it drives: max_batch is of all of them together
  config::Precision precision = config::Precision::fp32;
  std::string optimizer = "adam";
  std::size_t bucket_bytes = 25'000'000;
  int slots = 1;               // micro-batches in flight
  bool check_buckets = false;  // look at each bucket's gradients before it is announced
  int device = 0;
  config::Allocator allocator = config::Allocator::standard;
  bool memory_growth = false;
  std::size_t memory_limit = 0;  // bytes; 0 = none
  bool deterministic = false;
  bool graphs = true;      // record steps, where the backend can
  std::string plan_cache;  // folder of tuned plans; empty = the user's cache folder
  std::vector<int> cores;  // CPU: the share of cores; empty = not pinned
  int threads = 1;
};

// Bytes, of one device.
struct MemoryUse {
  std::size_t allocated = 0;  // that the replica asked for: what follows, and scratch
  std::size_t peak = 0;
  std::size_t weights = 0;  // fp32 master copy and what is computed with
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t activations = 0;  // of all slots, with their gradients
};

// One copy of the model on one device. Belongs to one thread: the one that made it.
//
// On a device with a time line of its own (stream()), calls of a step only enqueue, spans lie in the device's
// memory, and results are to be had after synchronize.
class Replica {
 public:
  virtual ~Replica() = default;

  virtual DeviceStream stream() const { return {}; }
  virtual InputFormat input_format() const = 0;
  // Keeps a copy of the records on the device, if it can and there is room; input_format is `records` from
  // then on.
  virtual bool hold_dataset(const datasets::Dataset&) { return false; }
  virtual std::span<const Slot> slots() const = 0;  // ascending in offset
  virtual std::span<const Range> buckets()
      const = 0;                             // last layer first; together they cover the flat buffer
  virtual std::span<float> weights() = 0;    // flat, fp32 master copy
  virtual std::span<float> gradients() = 0;  // flat, fp32, same offsets
  virtual std::span<float> optimizer_state(
      int index) = 0;  // flat, same offsets; index < optimizer's state count

  // Batch norms' running values, Model::statistics order.
  virtual void import_statistics(std::span<const float> values) = 0;
  virtual void export_statistics(std::span<float> values) = 0;

  // Canonical order, Model::parameters offsets.
  virtual void import_weights(std::span<const float> canonical) = 0;
  virtual void export_weights(std::span<float> canonical) = 0;
  virtual void export_gradients(std::span<float> canonical) = 0;
  // Whether all devices that it drives hold the same weights, bit for bit.
  virtual bool devices_agree() { return true; }

  // Optimizer state in the same order; index as in optimizer_state(). Here it is lent the weights' place,
  // which every backend can put in order; a backend may know a shorter way.
  virtual void import_optimizer_state(int index, std::span<const float> canonical);
  virtual void export_optimizer_state(int index, std::span<float> canonical);

  // For a step in which this replica has no image.
  virtual void clear_gradients() = 0;

  // Starts to bring in the batch of a later forward; batches are taken in order. False: there is no room or
  // no use for it, and forward is to be given the batch itself.
  virtual bool prefetch(const Batch&) { return false; }
  virtual void forget_prefetched() {}

  // Micro-step. `gradient_scale` multiplies d(loss sum)/d(logits): 1 / images of the whole step (times the
  // loss scale), so that summing over replicas and micro-steps gives the mean. `first` overwrites gradients,
  // otherwise they add up; the sink is told of buckets only when `last`.
  virtual void forward(int slot, const Batch& batch) = 0;
  virtual void backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) = 0;
  // Of the micro-steps since the `first` one.
  virtual BatchResult result(int slot) = 0;

  // Optimizer over a range of the flat buffers. Where a gradient in it is not finite the step counts as not
  // applied; `guarded` then leaves weights and state alone, which are otherwise undefined.
  virtual void update(Range range, const kernels::OptimizerStep& step, bool guarded) = 0;
  // Of the step since the `first` micro-step. May be asked for in the middle of a step that failed.
  virtual StepOutcome outcome() = 0;

  // Calls `enqueue`, which makes this micro-step's calls and what follows its last one. With `record`, a
  // backend may keep what was enqueued and, for the next micro-step that differs in nothing but its numbers,
  // replay it without the call.
  virtual void run(const MicroStep&, bool /*record*/, const std::function<void()>& enqueue) { enqueue(); }
  // Drops what was recorded: before a communicator goes whose collectives are in it.
  virtual void forget_recorded() {}

  // Inference mode (running statistics), no gradients. A stage that gives no loss leaves its output in slot
  // 0.
  virtual BatchResult evaluate(const Batch& batch) = 0;

  // Stages of a pipeline. A batch's images are then what the stage before gives: canonical order (image,
  // channel, height, width), as are all of these. Valid until the slot's next forward.
  virtual std::span<const float> output(int slot);          // of forward
  virtual std::span<float> output_gradient(int slot);       // to be filled before backward
  virtual std::span<const float> input_gradient(int slot);  // of backward

  // For models with collective layers; before the first step.
  virtual void connect(Collective&);

  // Sharded states: what the range holds is no longer needed here, and its memory goes back until it is
  // written again. Reads as zero.
  virtual void release(FlatBuffer, Range) {}
  // Weights are asked for, layer by layer; null: they are all here.
  virtual void set_weight_source(WeightSource*) {}

  // Whether a step's forward, backward, collectives and update are one program. Then fused_step is called
  // in their place, for every micro-step.
  virtual bool fused() const { return false; }
  // Ahead of the first step, off the clock: compiles what steps of such micro-steps need, given the images of
  // each.
  virtual void prepare_steps(std::span<const int> /*images*/) {}
  virtual void fused_step(const MicroStep&);

  virtual Mark mark() = 0;
  virtual std::int64_t time_ns(Mark mark) = 0;
  virtual void synchronize(const Deadline& deadline) = 0;
  virtual MemoryUse memory() const = 0;
};

// What a backend that has none of it answers.
[[noreturn]] inline void not_offered(const char* what) {
  throw std::logic_error(fmt::format("a replica that has no {}", what));
}
inline std::span<const float> Replica::output(int) { not_offered("stages"); }
inline std::span<float> Replica::output_gradient(int) { not_offered("stages"); }
inline std::span<const float> Replica::input_gradient(int) { not_offered("stages"); }
inline void Replica::connect(Collective&) { not_offered("collective layers"); }
inline void Replica::fused_step(const MicroStep&) { not_offered("fused step"); }

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

}  // namespace dtrain::backend
