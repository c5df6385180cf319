#include "backend/cpu/cpu_replica.hpp"

#include <numeric>

#include "base/error.hpp"
#include "kernels/elementwise.hpp"

namespace dtrain::backend::cpu {

namespace {

constexpr std::size_t update_grain = 16384;

template <class Visit>
void for_each_parameter(const model::Model& model, const FlatLayout& layout, const Visit& visit) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) visit(model.parameters[p], layout.entries[p]);
}

// A parameter in canonical order with the dimensions that its oneDNN layout has.
dnnl::memory::desc canonical_desc(const FlatLayout::Entry& entry) {
  constexpr dnnl::memory::format_tag plain[] = {dnnl::memory::format_tag::a, dnnl::memory::format_tag::ab,
                                                dnnl::memory::format_tag::abc,
                                                dnnl::memory::format_tag::abcd};
  const auto dims = entry.desc.dims();
  return {dims, dnnl::memory::data_type::f32, plain[dims.size() - 1]};
}

void reorder(const dnnl::engine& engine, dnnl::stream stream, const dnnl::memory::desc& from_desc,
             const float* from, const dnnl::memory::desc& to_desc, float* to) {
  dnnl::memory source(from_desc, engine, const_cast<float*>(from));
  dnnl::memory target(to_desc, engine, to);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

bool emulates_bf16(config::Precision precision) { return precision == config::Precision::bf16; }

// Of weights, gradients and optimizer states, where they are most.
std::size_t flat_bytes(const ReplicaConfig& config, const FlatLayout& layout) {
  std::vector<Slot> slots;
  for (const auto& entry : layout.entries) {
    slots.push_back({static_cast<int>(slots.size()), {entry.offset, entry.size}});
  }
  const BucketPlan plan = plan_buckets(*config.model, slots, layout.size, config.bucket_bytes);
  const auto bytes = [&](bool shared, bool with_largest) {
    return shared_bytes(layout.size, plan.buckets, shared ? config.shares : 1, with_largest);
  };
  const std::size_t weights = bytes(config.zero_stage >= 3, true);
  const std::size_t rounded = emulates_bf16(config.precision) ? weights : 0;
  const std::size_t gradients = bytes(config.zero_stage >= 2 && !config.whole_gradients, true);
  const auto states = static_cast<std::size_t>(kernels::optimizers().at(config.optimizer).value.states);
  return weights + rounded + gradients + states * bytes(config.zero_stage >= 1, false);
}

}  // namespace

CpuReplica::CpuReplica(const ReplicaConfig& config)
    : model_(config.model),
      optimizer_(&kernels::optimizers().at(config.optimizer).value),
      team_(config.threads, config.cores),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      round_bf16_(emulates_bf16(config.precision)),
      check_buckets_(config.check_buckets),
      gives_loss_(config.gives_loss),
      wants_input_gradient_(config.wants_input_gradient),
      max_batch_(config.max_batch),
      programs_(static_cast<std::size_t>(config.slots)),
      flights_(static_cast<std::size_t>(config.slots)),
      weights_come_and_go_(config.sharded && config.zero_stage >= 3) {
  auto first = std::make_unique<Program>(*model_, engine_, team_, max_batch_, round_bf16_, layout_,
                                         wants_input_gradient_, &link_);
  for (std::size_t p = 0; p < layout_.entries.size(); ++p) {
    slots_.push_back({static_cast<int>(p), {layout_.entries[p].offset, layout_.entries[p].size}});
  }
  buckets_ = plan_buckets(*model_, slots_, layout_.size, config.bucket_bytes);
  const auto kind = config.sharded ? FlatMemory::Kind::paged : FlatMemory::Kind::fixed;
  weights_ = FlatMemory(layout_.size, kind);
  gradients_ = FlatMemory(layout_.size, kind);
  if (round_bf16_) compute_weights_ = FlatMemory(layout_.size, kind);
  for (int s = 0; s < optimizer_->states; ++s) states_.emplace_back(layout_.size, kind);
  statistics_ = AlignedBuffer<float>(model_->statistic_count);
  const std::vector<float> initial = model::initial_statistics(*model_);
  std::copy(initial.begin(), initial.end(), statistics_.data());
  for (int slot = 0; slot < config.slots; ++slot) arenas_.emplace_back(first->arena_bytes());
  programs_[0][max_batch_] = std::move(first);
  programs_[0][max_batch_]->bind(engine_, arenas_[0].data(),
                                 round_bf16_ ? compute_weights_.data() : weights_.data(), gradients_.data(),
                                 statistics_.data());
}

std::size_t CpuReplica::estimate(const ReplicaConfig& config) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Team team(1, {});
  FlatLayout layout;
  // Images in an arena grow in proportion, so a small program tells the size of a large one without its
  // descriptors overflowing.
  const auto bytes_for = [&](int count) {
    FlatLayout fresh;
    const Program program(*config.model, engine, team, count, emulates_bf16(config.precision), fresh,
                          config.wants_input_gradient);
    layout = fresh;
    return static_cast<double>(program.arena_bytes());
  };
  constexpr int small = 8;
  const double slope = (bytes_for(2 * small) - bytes_for(small)) / small;
  const double arena = bytes_for(small) + slope * (config.max_batch - small);
  return static_cast<std::size_t>(std::max(arena, 0.0) * config.slots) + flat_bytes(config, layout);
}

Program& CpuReplica::program(int slot, int count) {
  auto& by_count = programs_[static_cast<std::size_t>(slot)];
  auto& entry = by_count[count];
  if (entry) return *entry;
  if (count > max_batch_) throw std::logic_error("replica fed with more images than it was made for");
  entry = std::make_unique<Program>(*model_, engine_, team_, count, round_bf16_, layout_,
                                    wants_input_gradient_, &link_);
  AlignedBuffer<std::byte>* arena = &arenas_[static_cast<std::size_t>(slot)];
  if (entry->arena_bytes() > arena->size()) {  // a primitive may want more scratch for fewer images
    arena = &extra_arenas_.emplace_back(entry->arena_bytes());
  }
  entry->bind(engine_, arena->data(), round_bf16_ ? compute_weights_.data() : weights_.data(),
              gradients_.data(), statistics_.data());
  return *entry;
}

void CpuReplica::convert(std::span<const float> canonical, std::span<float> flat) {
  for_each_parameter(*model_, layout_,
                     [&](const model::Parameter& parameter, const FlatLayout::Entry& entry) {
                       reorder(engine_, stream_, canonical_desc(entry), canonical.data() + parameter.offset,
                               entry.desc, flat.data() + entry.offset);
                     });
}

void CpuReplica::convert_back(std::span<const float> flat, std::span<float> canonical) {
  for_each_parameter(*model_, layout_,
                     [&](const model::Parameter& parameter, const FlatLayout::Entry& entry) {
                       reorder(engine_, stream_, entry.desc, flat.data() + entry.offset,
                               canonical_desc(entry), canonical.data() + parameter.offset);
                     });
}

void CpuReplica::import_weights(std::span<const float> canonical) {
  in_steps_ = false;
  convert(canonical, weights_.span());
  compute_weights_stale_ = true;
}
void CpuReplica::export_weights(std::span<float> canonical) {
  in_steps_ = false;
  convert_back(weights_.span(), canonical);
}
void CpuReplica::export_gradients(std::span<float> canonical) {
  in_steps_ = false;
  convert_back(gradients_.span(), canonical);
}
void CpuReplica::import_optimizer_state(int index, std::span<const float> canonical) {
  convert(canonical, optimizer_state(index));
}
void CpuReplica::export_optimizer_state(int index, std::span<float> canonical) {
  convert_back(optimizer_state(index), canonical);
}

void CpuReplica::import_statistics(std::span<const float> values) {
  std::ranges::copy(values, statistics_.data());
}
void CpuReplica::export_statistics(std::span<float> values) {
  std::ranges::copy(statistics_.span(), values.begin());
}

void CpuReplica::refresh_compute_weights() {
  if (!round_bf16_ || !compute_weights_stale_ || rounding_) return;
  kernels::round_to_bf16(weights_.span(), compute_weights_.span());
  compute_weights_stale_ = false;
}

void CpuReplica::forward(int slot, const Batch& batch) {
  Flight& flight = flights_[static_cast<std::size_t>(slot)];
  flight.program = nullptr;
  in_steps_ = true;
  if (batch.count == 0) return;
  refresh_compute_weights();
  flight.program = &program(slot, batch.count);
  flight.labels = {batch.labels, static_cast<std::size_t>(batch.count)};
  flight.program->feed(batch.images);
  flight.program->forward(stream_, true, source());
}

void CpuReplica::begin(bool first) {
  if (!first) return;
  for (Flight& flight : flights_) flight.result = {};
  outcome_ = {};
}

void CpuReplica::announce(std::size_t bucket, GradientSink& sink) {
  const Range range = buckets_.buckets[bucket];
  if (check_buckets_ && !kernels::all_finite(gradients_.span().subspan(range.offset, range.size))) {
    outcome_.own_finite = false;
  }
  sink.bucket_ready(static_cast<int>(bucket), {});
}

void CpuReplica::clear_gradients() {
  gradients_.clear();
  begin(true);
}

void CpuReplica::backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) {
  Flight& flight = flights_[static_cast<std::size_t>(slot)];
  begin(first);
  std::size_t next_bucket = 0;
  const auto layer_done = [&](int layer) {
    if (!last) return;
    for (; next_bucket < buckets_.buckets.size() && buckets_.first_layer[next_bucket] >= layer;
         ++next_bucket) {
      announce(next_bucket, sink);
    }
  };
  if (flight.program == nullptr) {  // no image fell to this replica: its part of the sum is zero
    if (first) gradients_.clear();
    layer_done(0);
    return;
  }
  if (gives_loss_) {
    const BatchResult result = flight.program->loss(flight.labels, gradient_scale, true);
    flight.result.loss_sum += result.loss_sum;
    flight.result.correct += result.correct;
    flight.result.count += result.count;
  }
  flight.program->backward(stream_, !first, layer_done, source());
}

BatchResult CpuReplica::result(int slot) { return flights_[static_cast<std::size_t>(slot)].result; }

void CpuReplica::update(Range range, const kernels::OptimizerStep& step, bool guarded) {
  const auto part = [](FlatMemory& buffer, std::size_t begin, std::size_t end) {
    return buffer.span().subspan(begin, end - begin);
  };
  if (guarded && !kernels::all_finite(part(gradients_, range.offset, range.offset + range.size))) {
    outcome_.applied = false;
    return;
  }
  std::atomic<bool> finite{true};
  team_.split(range.size, update_grain, [&](std::size_t begin, std::size_t end) {
    begin += range.offset;
    end += range.offset;
    const std::span<float> none;
    const bool ok = optimizer_->update(part(weights_, begin, end), part(gradients_, begin, end),
                                       !states_.empty() ? part(states_[0], begin, end) : none,
                                       states_.size() > 1 ? part(states_[1], begin, end) : none, step);
    if (!ok) finite = false;
  });
  compute_weights_stale_ = true;
  for (FlatMemory& state : states_) state.sample();
  if (!finite) outcome_.applied = false;
  if (!kernels::all_finite(part(weights_, range.offset, range.offset + range.size))) {
    outcome_.weights_finite = false;
  }
}

BatchResult CpuReplica::evaluate(const Batch& batch) {
  if (batch.count == 0) return {};
  refresh_compute_weights();
  Program& lowered = program(0, batch.count);
  lowered.feed(batch.images);
  lowered.forward(stream_, false, source());
  flights_[0].program = &lowered;
  if (!gives_loss_) return {.count = batch.count};
  return lowered.loss({batch.labels, static_cast<std::size_t>(batch.count)}, 0.0F, false);
}

void CpuReplica::release(FlatBuffer buffer, Range range) {
  if (range.size == 0) return;
  const auto give_back = [&](FlatMemory& memory) {
    if (in_steps_) memory.sample();
    memory.release(range);
  };
  switch (buffer) {
    case FlatBuffer::weights:
      return give_back(weights_);
    case FlatBuffer::gradients:
      return give_back(gradients_);
    case FlatBuffer::optimizer:
      for (FlatMemory& state : states_) give_back(state);
  }
}

void CpuReplica::set_weight_source(WeightSource* source) {
  source_ = source;
  rounding_.reset();
  if (source == nullptr || !round_bf16_ || !weights_come_and_go_) return;
  compute_weights_.clear();
  compute_weights_stale_ = true;
  rounding_.emplace(*source, weights_, compute_weights_);
}

MemoryUse CpuReplica::memory() const {
  const auto most = [&](const FlatMemory& memory) {
    return in_steps_ || memory.most() == 0 ? std::max(memory.most(), memory.now()) : memory.most();
  };
  MemoryUse use;
  use.weights = most(weights_) + most(compute_weights_);
  use.gradients = most(gradients_);
  for (const auto& state : states_) use.optimizer += most(state);
  for (const auto& arena : arenas_) use.activations += arena.size();
  for (const auto& arena : extra_arenas_) use.activations += arena.size();
  use.allocated =
      use.weights + use.gradients + use.optimizer + use.activations + statistics_.size() * sizeof(float);
  use.peak = use.allocated;
  return use;
}

}  // namespace dtrain::backend::cpu
