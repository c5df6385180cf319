#include "train/world.hpp"

#include <algorithm>
#include <barrier>
#include <optional>

#include "base/hash.hpp"
#include "train/crew.hpp"
#include "train/dataset_slice.hpp"
#include "train/rank.hpp"

namespace dtrain::train {
namespace {

void check(const WorldConfig& config) {
  const config::RunPlan& plan = config.plan;
  const int most = config.strategy->max_replicas();
  if (plan.replicas < 1 || plan.replicas > most) {
    throw usage_error(fmt::format("--replicas {} under --strategy {}, which drives {}", plan.replicas,
                                  plan.strategy, most == 1 ? "one replica" : "at least one"),
                      "use --strategy mirrored for several replicas");
  }
  if (plan.replica_batch.empty() || (!plan.cores.empty() && std::ssize(plan.cores) != plan.replicas)) {
    throw std::logic_error("plan without a batch or with cores for another number of replicas");
  }
  for (const auto& delay : config.delays) {
    if (delay.rank < 0 || delay.rank >= plan.replicas) {
      throw usage_error(
          fmt::format("--inject-delay rank={}: there are {} replicas", delay.rank, plan.replicas),
          fmt::format("ranks go from 0 to {}", plan.replicas - 1));
    }
    if (delay.phase == config::Phase::communication && !config.strategy->uses_collective()) {
      throw usage_error(
          fmt::format("--inject-delay phase=communication: --strategy {} has none", plan.strategy),
          "delay another phase, or use --strategy mirrored");
    }
  }
}

}  // namespace

class World::Impl {
 public:
  explicit Impl(WorldConfig config)
      : config_(std::move(config)), start_(config_.plan.replicas), crew_(config_.plan.replicas) {
    ranks_.reserve(static_cast<std::size_t>(config_.plan.replicas));
    for (int rank = 0; rank < config_.plan.replicas; ++rank) ranks_.emplace_back(config_, failures_, rank);
  }

  // Replicas, pipelines and communicators go on the threads that made them, when no rank uses another's.
  ~Impl() {
    crew_.run([&](int rank) { ranks_[static_cast<std::size_t>(rank)].release(); });
  }

  void build() {
    on_all([](Rank& rank) { rank.build(); });
    if (config_.strategy->uses_collective()) {
      group_ = comm::local_communicators()
                   .at(config_.communicator)
                   .value({.size = config_.plan.replicas, .oversubscribed = config_.plan.simulated});
    }
    on_all([&](Rank& rank) { rank.join(group_.get()); });
  }

  // Runs a job on every rank's thread. Once one has failed, the first cause is thrown, now and ever after
  // where a job needs all ranks to be sound.
  enum class Kind { steps, other };
  template <class Job>
  void on_all(const Job& job, Kind kind = Kind::other) {
    failures_.clear();
    crew_.run([&](int index) {
      Rank& rank = ranks_[static_cast<std::size_t>(index)];
      try {
        job(rank);
      } catch (...) {
        const Failure failure = failure_in_flight(index, kind == Kind::steps ? rank.step() + 1 : 0);
        if (failures_.add(failure)) rank.abort(failure.what);
      }
    });
    if (const auto cause = failures_.cause()) {
      broken_ = cause;
      cause->raise();
    }
  }

  template <class Job>
  void on_rank(int number, const Job& job) {
    on_all([&](Rank& rank) {
      if (rank.number() == number) job(rank);
    });
  }

  void require_sound() const {
    if (broken_) broken_->raise();
  }

  measure::StretchRecord run(int steps) {
    require_sound();
    const auto count = static_cast<std::size_t>(std::max(steps, 0));
    measure::StretchRecord stretch;
    stretch.ranks.assign(ranks_.size(), std::vector<measure::StepRecord>(count));
    if (count == 0) return stretch;
    announce(steps);
    const std::uint64_t sent_before = ranks_[0].bytes_sent();
    on_all(
        [&](Rank& rank) {
          start_.arrive_and_wait();
          rank.run(stretch.ranks[static_cast<std::size_t>(rank.number())]);
        },
        Kind::steps);
    bytes_per_step_ = (ranks_[0].bytes_sent() - sent_before) / count;
    stretch.begin_ns = stretch.ranks[0].front().begin_ns;
    for (const auto& records : stretch.ranks) {
      stretch.begin_ns = std::min(stretch.begin_ns, records.front().begin_ns);
      stretch.end_ns = std::max(stretch.end_ns, records.back().end_ns);
    }
    for (const auto& record : stretch.ranks[0]) skipped_ += record.skipped ? 1 : 0;
    keep_losses(stretch);
    return stretch;
  }

  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
    require_sound();
    std::vector<float> statistics;
    if (config_.model->has_batch_statistics()) {
      on_rank(0, [&](Rank& rank) { statistics = rank.state().statistics; });
    }
    std::vector<Evaluation> sums(ranks_.size());
    on_all([&](Rank& rank) {
      rank.replica().import_statistics(statistics);
      sums[static_cast<std::size_t>(rank.number())] = rank.evaluate(share_of(dataset, rank.number()));
    });
    Evaluation total;
    for (const Evaluation& sum : sums) {
      total.loss += sum.loss;
      total.accuracy += sum.accuracy;
      total.images += sum.images;
    }
    if (total.images == 0) return total;
    total.loss /= static_cast<double>(total.images);
    total.accuracy /= static_cast<double>(total.images);
    return total;
  }

  void load_state(const TrainingState& state) {
    require_sound();
    on_all([&](Rank& rank) { rank.load(state); });
    losses_.clear();
    skipped_ = 0;
  }

  std::vector<std::string> weight_hashes() {
    std::vector<std::string> hashes(ranks_.size());
    on_all([&](Rank& rank) {
      Hash hash;
      hash.add(std::span<const float>(rank.weights()));
      hashes[static_cast<std::size_t>(rank.number())] = hash.hex();
    });
    return hashes;
  }

  void describe(measure::RunSamples& samples) {
    std::vector<backend::MemoryUse> memory(ranks_.size());
    on_all([&](Rank& rank) {
      memory[static_cast<std::size_t>(rank.number())] = rank.replica().memory();
      if (rank.number() == 0) samples.stamp_seconds = rank.stamp_seconds();
    });
    for (const auto& use : memory) {
      samples.replica_bytes = std::max(samples.replica_bytes, use.allocated);
      samples.replica_peak_bytes = std::max(samples.replica_peak_bytes, use.peak);
    }
    samples.stamps_per_step = ranks_[0].stamps_per_step();
    samples.losses = losses_;
    samples.bytes_sent = bytes_per_step_ * samples.measured_steps;
    if (!broken_) describe_weights(samples);
    add_notes(samples);
  }

  std::vector<config::DeviceCondition> conditions() const {
    auto conditions = config_.backend->conditions();
    std::erase_if(conditions, [&](const auto& condition) {
      return std::ranges::find(config_.plan.devices, condition.device) == config_.plan.devices.end();
    });
    return conditions;
  }

  const WorldConfig& config() const { return config_; }
  const std::vector<double>& losses() const { return losses_; }
  const Rank& first() const { return ranks_[0]; }

 private:
  void announce(int steps) const {
    if (config_.live == nullptr) return;
    measure::LiveStep& live = *config_.live;
    live.steps = 0;
    live.images = 0;
    live.planned = steps;
    live.begin_ns = now_ns();
  }

  void keep_losses(const measure::StretchRecord& stretch) {
    for (std::size_t step = 0; step < stretch.ranks[0].size(); ++step) {
      double sum = 0.0;
      for (const auto& records : stretch.ranks) sum += records[step].loss_sum;
      losses_.push_back(sum / stretch.ranks[0][step].step_images);
    }
  }

  // Contiguous parts, in rank order.
  std::shared_ptr<const datasets::Dataset> share_of(const std::shared_ptr<const datasets::Dataset>& dataset,
                                                    int rank) const {
    const std::size_t size = dataset->size();
    const std::size_t replicas = ranks_.size();
    const auto bound = [&](int index) { return size * static_cast<std::size_t>(index) / replicas; };
    return std::make_shared<DatasetSlice>(dataset, bound(rank), bound(rank + 1) - bound(rank));
  }

  // Ranks that were stopped inside a step need not agree, so nothing is said of them.
  void describe_weights(measure::RunSamples& samples) {
    const auto hashes = weight_hashes();
    samples.weights_hash = hashes[0];
    samples.weights_agree = std::ranges::all_of(hashes, [&](const auto& hash) { return hash == hashes[0]; });
  }

  void add_notes(measure::RunSamples& samples) const {
    if (config_.model->has_batch_statistics() && config_.plan.replicas > 1) {
      samples.notes.emplace_back(
          "batch statistics are each replica's own: N replicas do not equal one at the same global batch, "
          "and "
          "evaluation uses rank 0's");
    }
    if (config_.options->precision == config::Precision::fp16) {
      samples.notes.push_back(
          fmt::format("dynamic loss scaling: scale {:g} at the end, {} of {} steps skipped, warm-up included",
                      ranks_[0].loss_scale(), skipped_, losses_.size()));
    }
    for (const auto& delay : config_.delays) {
      samples.notes.push_back(fmt::format("rank {} was delayed by {:g} ms in {} of every step, as asked",
                                          delay.rank, delay.milliseconds, config::name(delay.phase)));
    }
  }

  WorldConfig config_;
  std::vector<double> losses_;
  FailureLog failures_;  // of the job that runs
  std::optional<Failure> broken_;
  std::uint64_t bytes_per_step_ = 0;  // by rank 0: every step moves the same
  std::uint64_t skipped_ = 0;
  std::unique_ptr<comm::LocalGroup> group_;
  std::vector<Rank> ranks_;
  std::barrier<> start_;
  Crew crew_;
};

World::World(WorldConfig config) {
  check(config);
  impl_ = std::make_unique<Impl>(std::move(config));
  impl_->build();
}

World::~World() = default;

const config::RunPlan& World::plan() const { return impl_->config().plan; }
measure::StretchRecord World::run(int steps) { return impl_->run(steps); }
void World::describe(measure::RunSamples& samples) { impl_->describe(samples); }
std::vector<config::DeviceCondition> World::conditions() { return impl_->conditions(); }
Evaluation World::evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
  return impl_->evaluate(dataset);
}
int World::steps_per_epoch() const { return impl_->first().pipeline().steps_per_epoch(); }
std::int64_t World::steps_taken() const { return impl_->first().step(); }

TrainingState World::save_state() {
  TrainingState state;
  impl_->on_rank(0, [&](Rank& rank) { state = rank.state(); });
  return state;
}

void World::load_state(const TrainingState& state) { impl_->load_state(state); }

std::vector<float> World::weights(int rank) {
  std::vector<float> values;
  impl_->on_rank(rank, [&](Rank& owner) { values = owner.weights(); });
  return values;
}

std::vector<float> World::gradients(int rank) {
  std::vector<float> values;
  impl_->on_rank(rank, [&](Rank& owner) { values = owner.gradients(); });
  return values;
}

std::vector<std::string> World::weight_hashes() { return impl_->weight_hashes(); }
const std::vector<double>& World::losses() const { return impl_->losses(); }

}  // namespace dtrain::train
