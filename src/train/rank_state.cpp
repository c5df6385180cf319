#include "base/hash.hpp"
#include "train/rank.hpp"

// What a rank's replica holds: taken out, brought in, handed on.
namespace dtrain::train {
namespace {

int states_of(const std::string& optimizer) { return kernels::optimizers().at(optimizer).value.states; }

}  // namespace

TrainingState Rank::state() {
  TrainingState state;
  state.step = step_;
  state.updates = updates_;
  state.loss_scale = loss_scale_.scale;
  state.good_steps = loss_scale_.good_steps;
  state.weights = weights();
  for (int index = 0; index < states_of(config_->options->optimizer); ++index) {
    auto& canonical = state.optimizer.emplace_back(config_->model->parameter_count);
    replica_->export_optimizer_state(index, canonical);
  }
  state.statistics.resize(config_->model->statistic_count);
  replica_->export_statistics(state.statistics);
  return state;
}

void Rank::import_state(const TrainingState& state) {
  if (state.weights.size() != config_->model->parameter_count ||
      state.statistics.size() != config_->model->statistic_count ||
      state.optimizer.size() != static_cast<std::size_t>(states_of(config_->options->optimizer))) {
    throw data_error("the training state is that of another model or optimizer",
                     "resume with the --model and --optimizer it was made with");
  }
  replica_->import_weights(state.weights);
  for (std::size_t index = 0; index < state.optimizer.size(); ++index) {
    replica_->import_optimizer_state(static_cast<int>(index), state.optimizer[index]);
  }
}

// From rank 0's replica, buffer by buffer.
void Rank::receive_state() {
  if (!spans() || !communicator_) return;
  const Deadline deadline = Deadline::in(config_->options->timeout);
  communicator_->broadcast(replica_->weights(), 0, deadline);
  for (int index = 0; index < states_of(config_->options->optimizer); ++index) {
    communicator_->broadcast(replica_->optimizer_state(index), 0, deadline);
  }
}

void Rank::load(const TrainingState& state) {
  const bool whole = !state.weights.empty();
  if (whole) import_state(state);
  receive_state();
  strategy_->distribute_state();
  replica_->import_statistics(state.statistics);
  step_ = state.step;
  updates_ = state.updates;
  if (loss_scaling_) loss_scale_ = {state.loss_scale, state.good_steps};
  prefetched_.reset();
  replica_->forget_prefetched();
  pipeline_->seek(state.step);
}

std::vector<float> Rank::weights() {
  std::vector<float> canonical(config_->model->parameter_count);
  replica_->export_weights(canonical);
  return canonical;
}

std::vector<float> Rank::gradients() {
  std::vector<float> canonical(config_->model->parameter_count);
  replica_->export_gradients(canonical);
  const auto unscale = static_cast<float>(1.0 / last_scale_);
  for (float& value : canonical) value *= unscale;
  return canonical;
}

std::uint64_t Rank::layout_hash() {
  std::vector<float> numbered(config_->model->parameter_count);
  for (std::size_t i = 0; i < numbered.size(); ++i) numbered[i] = static_cast<float>(i % 16'777'213);
  Hash hash;
  if (replica_->stream().device >= 0) {  // weights lie in its memory, and are all in one order
    std::vector<std::uint64_t> places;
    for (const backend::Slot& place : replica_->slots()) {
      places.insert(places.end(),
                    {static_cast<std::uint64_t>(place.parameter), place.range.offset, place.range.size});
    }
    hash.add(std::span<const std::uint64_t>(places));
    return hash.value();
  }
  const std::vector<float> kept = weights();
  replica_->import_weights(numbered);
  hash.add(std::span<const float>(replica_->weights()));
  replica_->import_weights(kept);
  return hash.value();
}

}  // namespace dtrain::train
