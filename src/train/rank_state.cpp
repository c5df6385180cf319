#include "backend/layout_hash.hpp"
#include "train/rank.hpp"

// What a rank's replica holds: taken out, brought in, handed on.
namespace dtrain::train {
namespace {

int states_of(const std::string& optimizer) { return kernels::optimizers().at(optimizer).value.states; }

}  // namespace

Rank::WholeState Rank::own_state() {
  const model::Model& model = own_model();
  WholeState state;
  state.weights.resize(model.parameter_count);
  replica_->export_weights(state.weights);
  state.gradients.resize(model.parameter_count);
  replica_->export_gradients(state.gradients);
  for (int index = 0; index < states_of(config_->options->optimizer); ++index) {
    replica_->export_optimizer_state(index, state.optimizer.emplace_back(model.parameter_count));
  }
  state.statistics.resize(model.statistic_count);
  replica_->export_statistics(state.statistics);
  return state;
}

void Rank::set_own_state(const WholeState& state) {
  replica_->import_weights(state.weights);
  for (std::size_t index = 0; index < state.optimizer.size(); ++index) {
    replica_->import_optimizer_state(static_cast<int>(index), state.optimizer[index]);
  }
}

// Every element comes from exactly one rank; the others add zero.
std::vector<float> Rank::join_parts(std::span<const float> own, const std::vector<model::Piece>& pieces,
                                    std::size_t size) {
  std::vector<float> whole(size, 0.0F);
  if (assignment_.contributes) model::put_part(own, pieces, whole);
  if (!communicator_ || whole.empty()) return whole;
  const comm::Ticket ticket = communicator_->all_reduce(whole, {});
  communicator_->wait(ticket, Deadline::in(config_->options->timeout));
  return whole;
}

void Rank::collect_state() {
  strategy_->collect_state();
  if (holds_whole_state() || whole_) return;
  WholeState own = own_state();
  strategy_->distribute_state();
  if (!assignment_.part) {
    whole_ = std::move(own);
    return;
  }
  const model::Part& part = *assignment_.part;
  const std::size_t parameters = config_->model->parameter_count;
  WholeState whole;
  whole.weights = join_parts(own.weights, part.parameters, parameters);
  // What several ranks hold is to be the same everywhere, and their hashes tell.
  model::lay_over(own.weights, part.parameters, whole.weights);
  whole.gradients = join_parts(own.gradients, part.parameters, parameters);
  for (const auto& state : own.optimizer) {
    whole.optimizer.push_back(join_parts(state, part.parameters, parameters));
  }
  whole.statistics = join_parts(own.statistics, part.statistics, config_->model->statistic_count);
  whole_ = std::move(whole);
}

TrainingState Rank::state() {
  TrainingState state;
  state.step = step_;
  state.updates = updates_;
  state.loss_scale = loss_scale_.scale;
  state.good_steps = loss_scale_.good_steps;
  WholeState whole = whole_ ? *whole_ : own_state();
  state.weights = std::move(whole.weights);
  state.optimizer = std::move(whole.optimizer);
  state.statistics = std::move(whole.statistics);
  return state;
}

void Rank::import_state(const TrainingState& state) {
  if (state.weights.size() != config_->model->parameter_count ||
      state.statistics.size() != config_->model->statistic_count ||
      state.optimizer.size() != static_cast<std::size_t>(states_of(config_->options->optimizer))) {
    throw data_error("the training state is that of another model or optimizer",
                     "resume with the --model and --optimizer it was made with");
  }
  WholeState own{.weights = state.weights, .gradients = {}, .optimizer = state.optimizer, .statistics = {}};
  if (assignment_.part) {
    const auto take = [&](std::vector<float>& values) {
      values = model::take_part(values, assignment_.part->parameters, own_model().parameter_count);
    };
    take(own.weights);
    for (auto& values : own.optimizer) take(values);
  }
  set_own_state(own);
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

void Rank::share_from_first(std::vector<float>& values, std::size_t size) {
  values.resize(size);
  communicator_->broadcast(values, 0, Deadline::in(config_->options->timeout));
}

void Rank::load(const TrainingState& state) {
  whole_.reset();
  if (holds_whole_state()) {
    if (!state.weights.empty()) import_state(state);
    receive_state();
  } else {
    TrainingState whole = state;
    if (spans() && communicator_) {
      share_from_first(whole.weights, config_->model->parameter_count);
      whole.optimizer.resize(static_cast<std::size_t>(states_of(config_->options->optimizer)));
      for (auto& values : whole.optimizer) share_from_first(values, config_->model->parameter_count);
    }
    import_state(whole);
  }
  strategy_->distribute_state();
  import_statistics(state.statistics);
  step_ = state.step;
  updates_ = state.updates;
  if (loss_scaling_) loss_scale_ = {state.loss_scale, state.good_steps};
  prefetched_.reset();
  replica_->forget_prefetched();
  pipeline_->seek(state.step);
}

void Rank::import_statistics(std::span<const float> whole) {
  if (!assignment_.part) return replica_->import_statistics(whole);
  replica_->import_statistics(
      model::take_part(whole, assignment_.part->statistics, own_model().statistic_count));
}

std::vector<float> Rank::weights() {
  if (whole_) return whole_->weights;
  std::vector<float> canonical(own_model().parameter_count);
  replica_->export_weights(canonical);
  return canonical;
}

std::vector<float> Rank::gradients() {
  std::vector<float> canonical(own_model().parameter_count);
  if (whole_) {
    canonical = whole_->gradients;
  } else {
    replica_->export_gradients(canonical);
  }
  const auto unscale = static_cast<float>(1.0 / last_scale_);
  for (float& value : canonical) value *= unscale;
  return canonical;
}

std::uint64_t Rank::layout_hash() {
  if (assignment_.part) return 0;  // every rank has an order of its own
  return backend::layout_hash(*replica_, config_->model->parameter_count);
}

}  // namespace dtrain::train
