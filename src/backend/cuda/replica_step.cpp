// What a CudaReplica does in a step; all of it only enqueues.

#include "backend/cuda/range.hpp"
#include "backend/cuda/replica.hpp"
#include "base/error.hpp"
#include "kernels/cuda/check_finite.hpp"
#include "kernels/cuda/fill_optimizer.hpp"
#include "kernels/cuda/set_step.hpp"
#include "kernels/cuda/take_gradients.hpp"

namespace dtrain::backend::cuda {

namespace {

constexpr Seconds copy_patience{20.0};
constexpr Seconds failure_patience{1.0};

}  // namespace

bool CudaReplica::prefetch(const Batch& batch) {
  return batch.count > 0 && input_->push(batch, Deadline::in(copy_patience));
}

void CudaReplica::bring_in(const Batch& batch) {
  if (input_->empty()) input_->push(batch, Deadline::in(copy_patience));
  input_->take(numbers_, stream_.get());
}

void CudaReplica::send_numbers(bool clear) {
  DTRAIN_CUDA(kernels::cuda::set_step(block_, numbers_, clear ? outcome_ : nullptr, stream_.get()));
}

void CudaReplica::run(const MicroStep& step, bool record, const std::function<void()>& enqueue) {
  const NamedRange range("micro-step");
  const bool has_images = step.batch.count > 0;
  outcome_current_ = false;
  if (has_images) bring_in(step.batch);
  numbers_.gradient_scale = step.gradient_scale;
  kernels::cuda::fill_optimizer(numbers_, step.update);
  send_numbers(step.first);
  if (step.first) images_ = 0;
  images_ += step.batch.count;

  numbers_from_ = Numbers::by_run;
  try {
    if (record && config_.graphs) {
      recorder_->run({step.step_images, step.batch.count, step.index, step.first, step.last}, enqueue);
    } else {
      enqueue();
    }
  } catch (...) {
    numbers_from_ = Numbers::by_call;
    throw;
  }
  numbers_from_ = Numbers::by_call;
  if (has_images) input_->done(stream_.get());
}

void CudaReplica::forward(int slot, const Batch& batch) {
  const NamedRange range("forward");
  Program*& flight = flights_[static_cast<std::size_t>(slot)];
  flight = nullptr;
  if (batch.count == 0) return;
  flight = &program(slot, batch.count);
  if (numbers_from_ == Numbers::by_call) {
    bring_in(batch);
    send_numbers(false);
  }
  flight->load(block_);
  if (numbers_from_ == Numbers::by_call) input_->done(stream_.get());
  flight->forward(true);
}

void CudaReplica::begin(bool first, int count) {
  if (numbers_from_ == Numbers::by_run) return;
  outcome_current_ = false;
  if (first) images_ = 0;
  images_ += count;
}

void CudaReplica::backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) {
  const NamedRange range("backward");
  Program* flight = flights_[static_cast<std::size_t>(slot)];
  begin(first, flight != nullptr ? flight->count() : 0);
  std::size_t next_bucket = 0;
  const bool add = !first;
  const auto layer_done = [&](int layer) {
    if (!last) return;
    for (; next_bucket < buckets_.buckets.size() && buckets_.first_layer[next_bucket] >= layer;
         ++next_bucket) {
      announce(next_bucket, add && flight != nullptr, sink);
    }
  };
  if (flight == nullptr) {  // no image fell to this replica: its part of the sum is zero
    if (first) clear_gradients();
    return layer_done(0);
  }
  if (numbers_from_ == Numbers::by_call) {
    numbers_.gradient_scale = gradient_scale;
    send_numbers(first);
  }
  flight->loss(block_, outcome_, true);
  flight->backward(add, layer_done);
  if (!last) move_staged({0, layout_.size()}, add);
}

void CudaReplica::announce(std::size_t bucket, bool add, GradientSink& sink) {
  const Range range = buckets_.buckets[bucket];
  const bool computed = images_ > 0;
  if (computed) move_staged(range, add);
  if (config_.check_buckets) {
    DTRAIN_CUDA(kernels::cuda::check_finite(gradients_.data() + range.offset, range.size,
                                            &outcome_->own_not_finite, stream_.get()));
  }
  const Event& ready = bucket_events_[bucket];
  DTRAIN_CUDA(cudaEventRecord(ready.get(), stream_.get()));
  sink.bucket_ready(static_cast<int>(bucket), {ready.get()});
}

void CudaReplica::move_staged(Range range, bool add) {
  if (!stages(element_, add)) return;
  std::vector<kernels::cuda::Segment> segments;
  for (const FlatLayout::Entry& entry : layout_.entries()) {
    const bool inside = entry.offset >= range.offset && entry.offset < range.offset + range.size;
    if (entry.weight && inside) segments.push_back({entry.offset, entry.offset, entry.size()});
  }
  for (std::size_t first = 0; first < segments.size(); first += kernels::cuda::max_segments) {
    const std::size_t count = std::min(segments.size() - first, kernels::cuda::max_segments);
    DTRAIN_CUDA(kernels::cuda::take_gradients(flat_.staged_gradients, element_, gradients_.data(),
                                              {segments.data() + first, count}, add, nullptr, stream_.get()));
  }
}

void CudaReplica::clear_gradients() {
  begin(true, 0);
  DTRAIN_CUDA(cudaMemsetAsync(gradients_.data(), 0, gradients_.size_bytes(), stream_.get()));
  if (numbers_from_ == Numbers::by_call) send_numbers(true);
}

void CudaReplica::update(Range range, const kernels::OptimizerStep& step, bool) {
  const NamedRange named("update");
  if (numbers_from_ == Numbers::by_call) {
    outcome_current_ = false;
    kernels::cuda::fill_optimizer(numbers_, step);
    send_numbers(false);
  }
  const auto at = [&](std::span<float> values) { return values.data() + range.offset; };
  DTRAIN_CUDA(kernels::cuda::check_finite(at(gradients_), range.size, &outcome_->not_finite, stream_.get()));
  kernels::cuda::UpdateRange part{
      .weights = at(weights_), .gradients = at(gradients_), .element = element_, .size = range.size};
  if (!states_.empty()) part.state0 = at(states_[0]);
  if (states_.size() > 1) part.state1 = at(states_[1]);
  if (element_ != Element::f32) {
    part.copy =
        static_cast<std::byte*>(flat_.compute_weights) + range.offset * kernels::cuda::size_of(element_);
  }
  DTRAIN_CUDA(kernels::cuda::update_weights(rule_, part, block_, outcome_, stream_.get()));
}

Mark CudaReplica::mark() {
  if (recorder_->recording()) return timeline_->mark_recorded();
  if (outcome_current_) timeline_->renew(Deadline::in(copy_patience));  // idle since synchronize
  return timeline_->mark();
}

void CudaReplica::synchronize(const Deadline& deadline) {
  DTRAIN_CUDA(
      cudaMemcpyAsync(seen_.data(), outcome_, sizeof(*outcome_), cudaMemcpyDeviceToHost, stream_.get()));
  DTRAIN_CUDA(cudaEventRecord(finished_.get(), stream_.get()));
  if (!wait_for(finished_.get(), deadline)) {
    throw run_error(fmt::format("GPU {} has not finished a step within {:g} s", config_.device,
                                deadline.allowed().count()),
                    "raise --timeout if a step may take that long; else look at `dtrain info`");
  }
  outcome_current_ = true;
}

// Past work that may hang, on a stream of its own.
void CudaReplica::read_outcome() {
  if (outcome_current_) return;
  DTRAIN_CUDA(cudaEventRecord(finished_.get(), stream_.get()));
  wait_for(finished_.get(), Deadline::in(failure_patience));
  DTRAIN_CUDA(
      cudaMemcpyAsync(seen_.data(), outcome_, sizeof(*outcome_), cudaMemcpyDeviceToHost, side_.get()));
  DTRAIN_CUDA(cudaEventRecord(finished_.get(), side_.get()));
  wait_for(finished_.get(), Deadline::in(failure_patience));
}

BatchResult CudaReplica::result(int) {
  if (!outcome_current_) synchronize(Deadline::in(copy_patience));
  return {.loss_sum = seen_.data()->loss_sum, .correct = seen_.data()->correct, .count = images_};
}

StepOutcome CudaReplica::outcome() {
  read_outcome();
  const kernels::cuda::StepOutcome& seen = *seen_.data();
  return {.own_finite = seen.own_not_finite == 0,
          .applied = seen.not_finite == 0,
          .weights_finite = seen.weights_not_finite == 0};
}

BatchResult CudaReplica::evaluate(const Batch& batch) {
  const NamedRange range("evaluate");
  if (batch.count == 0) return {};
  if (!evaluation_input_) evaluation_input_.emplace(*memory_, config_.max_batch);
  Program& lowered = program(0, batch.count);
  kernels::cuda::StepBlock numbers;
  evaluation_input_->push(batch, Deadline::in(copy_patience));
  evaluation_input_->take(numbers, stream_.get());
  DTRAIN_CUDA(kernels::cuda::set_step(block_, numbers, evaluation_, stream_.get()));
  lowered.load(block_);
  evaluation_input_->done(stream_.get());
  lowered.forward(false);
  lowered.loss(block_, evaluation_, false);
  kernels::cuda::StepOutcome& seen = seen_.data()[1];
  DTRAIN_CUDA(cudaMemcpyAsync(&seen, evaluation_, sizeof(seen), cudaMemcpyDeviceToHost, stream_.get()));
  settle();
  return {.loss_sum = seen.loss_sum, .correct = seen.correct, .count = batch.count};
}

}  // namespace dtrain::backend::cuda
