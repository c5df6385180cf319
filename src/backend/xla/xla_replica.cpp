#include "backend/xla/xla_replica.hpp"

#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>

#include "base/error.hpp"
#include "config/plan.hpp"

namespace dtrain::backend::xla {

namespace {

constexpr Seconds evaluation_patience{300.0};
constexpr Seconds farewell{10.0};
constexpr std::size_t most_prefetched = 1;

Target make_target(const ReplicaConfig& config, int devices, bool on_cpu) {
  Target target;
  target.model = config.model;
  target.images = config::share_of(config.max_batch, 0, devices);
  target.bf16 = config.precision == config::Precision::bf16;
  target.on_cpu = on_cpu;
  target.replicas = devices;
  target.optimizer = config.optimizer;
  return target;
}

}  // namespace

XlaReplica::XlaReplica(std::shared_ptr<const Client> client, const ReplicaConfig& config, int devices,
                       bool on_cpu)
    : client_(std::move(client)),
      model_(config.model),
      optimizer_(config.optimizer),
      target_(make_target(config, devices, on_cpu)),
      whole_{0, model_->parameter_count},
      nothing_(model_->parameter_count, std::nanf("")),
      held_(*client_, target_),
      feed_(*client_, target_) {
  step_numbers(optimizer_, {}, 1.0F);
  for (std::size_t p = 0; p < model_->parameters.size(); ++p) {
    slots_.push_back({static_cast<int>(p), {model_->parameters[p].offset, model_->parameters[p].size}});
  }
}

// Devices may still write to memory that goes with this.
XlaReplica::~XlaReplica() {
  const Deadline deadline = Deadline::in(farewell);
  bool settled = !running_ || running_->settle(deadline);
  std::ranges::move(late_, std::back_inserter(flights_));
  for (const auto& flight : flights_) settled = settled && flight->ready->settle(deadline);
  if (settled) return;
  for (auto& flight : flights_) static_cast<void>(flight.release());
}

void XlaReplica::import_weights(std::span<const float> canonical) {
  held_.import(Group::weights, 0, canonical);
}
void XlaReplica::export_weights(std::span<float> canonical) {
  held_.export_from(0, Group::weights, 0, canonical);
}

bool XlaReplica::devices_agree() {
  std::vector<float> first(model_->parameter_count);
  std::vector<float> other(first.size());
  held_.export_from(0, Group::weights, 0, first);
  for (int d = 1; d < target_.replicas; ++d) {
    held_.export_from(d, Group::weights, 0, other);
    if (std::memcmp(first.data(), other.data(), first.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

void XlaReplica::import_optimizer_state(int index, std::span<const float> canonical) {
  held_.import(Group::states, index, canonical);
}
void XlaReplica::export_optimizer_state(int index, std::span<float> canonical) {
  held_.export_from(0, Group::states, index, canonical);
}
void XlaReplica::import_statistics(std::span<const float> values) {
  held_.import(Group::statistics, 0, values);
}
void XlaReplica::export_statistics(std::span<float> values) {
  held_.export_from(0, Group::statistics, 0, values);
}

void XlaReplica::export_gradients(std::span<float> canonical) {
  held_.export_from(0, Group::gradients, 0, canonical);
  if (summed_) return;
  std::vector<float> other(canonical.size());
  for (int d = 1; d < target_.replicas; ++d) {
    held_.export_from(d, Group::gradients, 0, other);
    for (std::size_t i = 0; i < other.size(); ++i) canonical[i] += other[i];
  }
}

void XlaReplica::clear_gradients() {
  begin_step();
  held_.import(Group::gradients, 0, std::vector<float>(model_->parameter_count, 0.0F));
}

void XlaReplica::begin_step() {
  std::ranges::move(flights_, std::back_inserter(late_));
  std::erase_if(late_, [](const auto& flight) { return flight->ready->settle(Deadline::in(Seconds(0.0))); });
  flights_.clear();
  summed_ = false;
}

bool XlaReplica::prefetch(const Batch& batch) {
  if (fed_.size() >= most_prefetched || batch.count == 0) return false;
  fed_.push_back(feed_.bring(batch));
  return true;
}

Fed XlaReplica::take(const Batch& batch) {
  if (fed_.empty()) return feed_.bring(batch);
  Fed fed = std::move(fed_.front());
  fed_.pop_front();
  return fed;
}

const XlaReplica::Loaded& XlaReplica::loaded(const ProgramKind& kind) {
  const auto found = programs_.find(kind);
  if (found != programs_.end()) return found->second;
  Program program = write_program(target_, kind);
  auto executable = client_->compile(program.text, target_.replicas);
  return programs_.emplace(kind, Loaded{std::move(program), std::move(executable)}).first->second;
}

void XlaReplica::prepare_steps(std::span<const int> images) {
  for (std::size_t i = 0; i < images.size(); ++i) {
    static_cast<void>(loaded({.pass = i + 1 == images.size() ? Pass::step : Pass::gradients,
                              .first = i == 0,
                              .masked = feed_.pads(images[i])}));
  }
}

void XlaReplica::fused_step(const MicroStep& micro) {
  if (micro.first) begin_step();
  const Fed fed = take(micro.batch);
  if (started_ns_ == 0) started_ns_ = now_ns();
  run({.pass = micro.last ? Pass::step : Pass::gradients,
       .first = micro.first,
       .masked = fed.masked,
       .floats = fed.floats},
      &fed, step_numbers(optimizer_, micro.update, micro.gradient_scale));
}

void XlaReplica::forward(int slot, const Batch& batch) {
  flying_.erase(slot);
  if (batch.count > 0) flying_.emplace(slot, take(batch));
}

void XlaReplica::backward(int slot, float gradient_scale, bool first, bool last, GradientSink& sink) {
  if (first) begin_step();
  const auto fed = flying_.find(slot);
  if (fed != flying_.end()) {
    run({.pass = Pass::gradients, .first = first, .masked = fed->second.masked, .floats = fed->second.floats},
        &fed->second, step_numbers(optimizer_, {}, gradient_scale));
    flying_.erase(fed);
  } else if (first) {
    clear_gradients();
  }
  if (last) sink.bucket_ready(0, {});
}

void XlaReplica::update(Range range, const kernels::OptimizerStep& step, bool) {
  if (range.offset != 0 || range.size != whole_.size) {
    throw std::logic_error("devices of one program update all of their weights together");
  }
  run({.pass = Pass::update}, nullptr, step_numbers(optimizer_, step, 1.0F));
}

void XlaReplica::run(const ProgramKind& kind, const Fed* fed, const Numbers& numbers) {
  const Loaded& loaded = this->loaded(kind);
  const Type number_type = group_types(target_, Group::numbers).front();
  std::vector<Buffer> number_buffers;
  std::vector<std::vector<PJRT_Buffer*>> given;
  const auto add = [&](const Buffer& buffer) { given.back().push_back(buffer.get()); };
  for (int d = 0; d < target_.replicas; ++d) {
    given.emplace_back();
    for (const Group group : loaded.program.arguments) {
      if (group <= Group::gradients) {
        std::ranges::for_each(held_.of(group, d), add);
      } else if (group == Group::numbers) {
        add(number_buffers.emplace_back(client_->upload(numbers.data(), number_type, d)));
      } else {
        const auto part = static_cast<std::size_t>(group) - static_cast<std::size_t>(Group::images);
        add(fed->parts[static_cast<std::size_t>(d)][part]);
      }
    }
  }
  const auto& counts = loaded.program.result_counts;
  const auto count = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0));
  running_ = std::make_shared<Completion>("a training step");
  auto results = loaded.executable->run(given, count, running_);
  download_metrics(results, count - 1, fed != nullptr ? fed->count : 0, kind.pass);
  for (int d = 0; d < target_.replicas; ++d) {
    auto from = results[static_cast<std::size_t>(d)].begin();
    for (std::size_t g = 0; g + 1 < counts.size(); ++g) {  // metrics are last, and stay behind
      const auto end = from + counts[g];
      held_.replace(loaded.program.results[g], d,
                    {std::make_move_iterator(from), std::make_move_iterator(end)});
      from = end;
    }
  }
  if (kind.pass == Pass::step || kind.pass == Pass::update) summed_ = true;
}

void XlaReplica::download_metrics(const std::vector<std::vector<Buffer>>& results, std::size_t index,
                                  int count, Pass pass) {
  auto flight = std::make_unique<Flight>();
  flight->metrics.resize(results.size() * metric_count);
  flight->ready = std::make_shared<Completion>("the losses of a training step");
  flight->count = count;
  flight->pass = pass;
  for (std::size_t d = 0; d < results.size(); ++d) {
    client_->download(results[d][index].get(),
                      std::span(flight->metrics).subspan(d * metric_count, metric_count), flight->ready);
  }
  flights_.push_back(std::move(flight));
}

float XlaReplica::sum(const Flight& flight, Metric metric) const {
  float total = 0.0F;
  for (std::size_t at = static_cast<std::size_t>(metric); at < flight.metrics.size(); at += metric_count) {
    total += flight.metrics[at];
  }
  return total;
}

bool XlaReplica::all(const Flight& flight, Metric metric) const {
  return sum(flight, metric) == static_cast<float>(target_.replicas);
}

void XlaReplica::synchronize(const Deadline& deadline) {
  for (const auto& flight : flights_) flight->ready->wait(deadline);
  if (!running_) return;
  running_->wait(deadline);
  if (started_ns_ == 0) return;
  ++executed_.steps;
  executed_.seconds += static_cast<double>(running_->done_ns() - started_ns_) * 1e-9;
  started_ns_ = 0;
}

BatchResult XlaReplica::result(int) {
  synchronize(Deadline::in(evaluation_patience));
  BatchResult result;
  for (const auto& flight : flights_) {
    if (flight->pass == Pass::update) continue;
    result.loss_sum += static_cast<double>(sum(*flight, Metric::loss_sum));
    result.correct += static_cast<int>(std::lround(sum(*flight, Metric::correct)));
    result.count += flight->count;
  }
  return result;
}

StepOutcome XlaReplica::outcome() {
  synchronize(Deadline::in(evaluation_patience));
  StepOutcome outcome;
  for (const auto& flight : flights_) {
    outcome.own_finite = outcome.own_finite && all(*flight, Metric::own_finite);
    outcome.applied = outcome.applied && all(*flight, Metric::sum_finite);
    outcome.weights_finite = outcome.weights_finite && all(*flight, Metric::weights_finite);
  }
  return outcome;
}

BatchResult XlaReplica::evaluate(const Batch& batch) {
  if (batch.count == 0) return {};
  auto kept = std::move(flights_);
  flights_.clear();
  const Fed fed = feed_.bring(batch);
  run({.pass = Pass::evaluate, .masked = fed.masked, .floats = fed.floats}, &fed, {});
  const BatchResult result = this->result(0);
  flights_ = std::move(kept);
  return result;
}

// Of one device. Activations are the compiler's own: not told.
MemoryUse XlaReplica::memory() const {
  MemoryUse use;
  use.weights = held_.bytes(Group::weights);
  use.gradients = held_.bytes(Group::gradients);
  use.optimizer = held_.bytes(Group::states);
  use.allocated = use.weights + use.gradients + use.optimizer + held_.bytes(Group::statistics);
  use.peak = std::max(use.allocated, client_->memory(0).peak);
  return use;
}

}  // namespace dtrain::backend::xla
