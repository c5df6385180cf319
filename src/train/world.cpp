#include "train/world.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "train/local_ranks.hpp"
#include "train/orders.hpp"
#include "train/wire.hpp"

namespace dtrain::train {

// The ranks here, and on the chief of a job, through orders, those of other processes.
class World::Impl {
 public:
  explicit Impl(WorldConfig config) : local_(std::make_unique<LocalRanks>(name_in_job(std::move(config)))) {}

  ~Impl() {
    if (!spans()) return;
    // Ranks here and elsewhere leave their group together.
    const std::shared_ptr<Leader> leader = config().leader;
    try {
      give(Order::Kind::drop);
      local_.reset();
      leader->collect();
    } catch (const std::exception&) {  // the job has ended, and the run with it
    }
  }

  void build() {
    const TimePoint begin = Clock::now();
    give(Order::Kind::build);
    const FlatLayout layout = local_->build();
    for (const auto& [rank, answer] : collect()) require_same_layout(rank, layout, answer);
    const TimePoint built = Clock::now();
    give(Order::Kind::join, static_cast<std::int64_t>(layout.size));
    local_->join(layout.size);
    collect();
    if (!spans()) return;
    log_info(fmt::format(
        "cluster: {}: {} processes built their part in {}, with weights in the same order, and met in {}{}",
        config().plan.id, config().members.size(), format_duration(seconds(built - begin)),
        format_duration(seconds(Clock::now() - built)), local_->exchange()));
  }

  measure::StretchRecord run(int steps) {
    measure::StretchRecord stretch;
    if (steps <= 0) {
      stretch.ranks.resize(static_cast<std::size_t>(loops()));
      return stretch;
    }
    give(Order::Kind::run, steps);
    LocalStretch here = run_here(steps);
    steps_ += static_cast<std::uint64_t>(steps);
    bytes_sent_ += here.bytes_sent;
    bytes_uncompressed_ += here.bytes_uncompressed;
    stretch.ranks = std::move(here.ranks);
    for (const auto& [rank, answer] : collect()) {
      for (auto& records : unpack_records(answer)) stretch.ranks.push_back(std::move(records));
    }
    if (std::ssize(stretch.ranks) != loops()) {
      throw std::logic_error("records of another number of ranks than the plan has");
    }
    stretch.begin_ns = stretch.ranks[0].front().begin_ns;
    for (const auto& records : stretch.ranks) {
      stretch.begin_ns = std::min(stretch.begin_ns, records.front().begin_ns);
      stretch.end_ns = std::max(stretch.end_ns, records.back().end_ns);
    }
    keep_account(stretch);
    return stretch;
  }

  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
    std::vector<float> statistics;
    if (config().model->has_batch_statistics()) {
      bring_state();
      statistics = local_->state().statistics;
    }
    ByteWriter payload;
    payload.put(statistics);
    give(Order::Kind::evaluate, dataset == config().data.test ? 1 : 0, payload.bytes());
    std::vector<Evaluation> sums = local_->evaluate(dataset, statistics);
    for (const auto& [rank, answer] : collect()) {
      ByteReader reader(answer, "an evaluation");
      const auto theirs = reader.get_all<Evaluation>();
      sums.insert(sums.end(), theirs.begin(), theirs.end());
    }
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
    give(Order::Kind::load, 0, pack_numbers(state));
    local_->load(state);
    collect();
    losses_.clear();
    skipped_ = 0;
  }

  std::vector<RankDescription> descriptions(bool with_weights) {
    if (local_->failure()) return local_->describe(false);
    give(Order::Kind::describe, with_weights ? 1 : 0);
    std::vector<RankDescription> ranks = local_->describe(with_weights);
    for (const auto& [rank, answer] : collect()) {
      const auto theirs = unpack_descriptions(answer);
      ranks.insert(ranks.end(), theirs.begin(), theirs.end());
    }
    return ranks;
  }

  void describe(measure::RunSamples& samples) {
    const auto ranks = descriptions(true);
    samples.stamp_seconds = local_->stamp_seconds();
    samples.rank_memory.clear();  // this is asked for after every round
    for (const auto& rank : ranks) {
      samples.replica_bytes = std::max(samples.replica_bytes, rank.memory.allocated);
      samples.replica_peak_bytes = std::max(samples.replica_peak_bytes, rank.memory.peak);
      samples.rank_memory.push_back({.allocated = rank.memory.allocated,
                                     .peak = rank.memory.peak,
                                     .weights = rank.memory.weights,
                                     .gradients = rank.memory.gradients,
                                     .optimizer = rank.memory.optimizer,
                                     .activations = rank.memory.activations});
    }
    samples.weights_hash = ranks[0].weights_hash;
    samples.weights_agree = std::ranges::all_of(ranks, [&](const auto& rank) {
      return rank.devices_agree && rank.weights_hash == ranks[0].weights_hash;
    });
    samples.stamps_per_step = local_->stamps_per_step();
    samples.losses = losses_;
    samples.bytes_sent = in_measured_steps(bytes_sent_, samples);
    samples.bytes_uncompressed = in_measured_steps(bytes_uncompressed_, samples);
    if (config().strategy->replicas_in_sync(*config().options, config().plan.replicas) == 1 &&
        config().strategy->communicates() && !config().strategy->uses_collective()) {
      samples.staleness = staleness_;
    }
    samples.dropped_gradients = dropped_;
    const strategy::AssignmentContext context = {
        .model = config().model.get(), .options = config().options, .plan = &config().plan};
    samples.division = config().strategy->division(context);
    samples.facts = config().strategy->facts(context, samples);
    add_notes(samples);
  }

  // Before rank 0 is asked for what the ranks have between them.
  void bring_state() {
    if (!local_->holds_whole_state()) descriptions(true);
  }

  LocalRanks& local() { return *local_; }
  const WorldConfig& config() const { return local_->config(); }
  const std::vector<double>& losses() const { return losses_; }

 private:
  using Answers = std::map<int, std::string>;  // by member

  static WorldConfig name_in_job(WorldConfig config) {
    if (config.leader) config.name = config.leader->name_run(config.plan.id);
    return config;
  }

  int loops() const { return config().strategy->one_loop() ? 1 : config().plan.replicas; }
  bool spans() const { return config().leader != nullptr && config().members.size() > 1; }

  void give(Order::Kind kind, std::int64_t number = 0, std::string payload = {}) {
    if (!spans()) return;
    const bool of_ranks = kind == Order::Kind::run || kind == Order::Kind::evaluate ||
                          kind == Order::Kind::describe || kind == Order::Kind::load;
    const std::uint64_t number_of_order =
        config().leader->give({.kind = kind,
                               .run = config().plan.id,
                               .name = config().name,
                               .number = number,
                               .payload = std::move(payload),
                               .members = of_ranks ? workers() : config().members});
    local_->begin_order(number_of_order);
  }

  // That host ranks.
  std::vector<int> workers() const {
    std::vector<int> workers = config().plan.workers;
    workers.erase(std::ranges::unique(workers).begin(), workers.end());
    return workers;
  }

  Answers collect() {
    if (!spans()) return {};
    return config().leader->collect();
  }

  // Where a rank here only met what was not finite, the cause may be with others, who answer all the same.
  LocalStretch run_here(int steps) {
    try {
      return local_->run(steps);
    } catch (const Error&) {
      if (local_->failure() && local_->failure()->echo) collect();
      throw;
    }
  }

  void require_same_layout(int member, const FlatLayout& ours, const std::string& answer) const {
    ByteReader reader(answer, "a layout");
    const auto theirs = reader.get<FlatLayout>();
    if (theirs == ours || theirs.size == 0) return;
    throw environment_error(
        fmt::format("{} keeps weights in another order than {}, so that their gradients cannot be added",
                    config().member->peers().at(static_cast<std::size_t>(member)).describe(),
                    config().member->peers().at(0).describe()),
        "their processors have different vector instructions: use machines of one kind");
  }

  void keep_account(const measure::StretchRecord& stretch) {
    for (std::size_t step = 0; step < stretch.ranks[0].size(); ++step) {
      double sum = 0.0;
      for (const auto& records : stretch.ranks) {
        const measure::StepRecord& record = records[step];
        sum += record.loss_sum;
        dropped_ += record.dropped ? 1 : 0;
        staleness_.add(record.staleness);
      }
      losses_.push_back(sum / stretch.ranks[0][step].step_images);
      skipped_ += stretch.ranks[0][step].skipped ? 1 : 0;
    }
  }

  // Warm-up steps send what measured ones do.
  std::uint64_t in_measured_steps(std::uint64_t bytes, const measure::RunSamples& samples) const {
    if (steps_ == 0) return 0;
    const double share = static_cast<double>(samples.measured_steps) / static_cast<double>(steps_);
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * share));
  }

  void add_note_of_statistics(measure::RunSamples& samples) const {
    const strategy::Assignment assignment = config().strategy->assign(
        {.model = config().model.get(), .options = config().options, .plan = &config().plan, .rank = 0});
    if (assignment.shares * assignment.devices > 1) {
      samples.notes.emplace_back(
          "batch statistics are each replica's own: N replicas do not equal one at the same global batch, "
          "and evaluation uses rank 0's");
    } else if (assignment.max_batch < config().plan.global_batch) {
      samples.notes.emplace_back(
          "batch statistics are each micro-batch's own: micro-batches do not equal the whole batch");
    }
  }

  void add_notes(measure::RunSamples& samples) const {
    if (config().model->has_batch_statistics()) add_note_of_statistics(samples);
    if (config().options->precision == config::Precision::fp16) {
      samples.notes.push_back(
          fmt::format("dynamic loss scaling: scale {:g} at the end, {} of {} steps skipped, warm-up included",
                      local_->loss_scale(), skipped_, losses_.size()));
    }
    for (const auto& delay : config().delays) {
      samples.notes.push_back(fmt::format("rank {} was delayed by {:g} ms in {} of every step, as asked",
                                          delay.rank, delay.milliseconds, config::name(delay.phase)));
    }
  }

  std::unique_ptr<LocalRanks> local_;
  std::vector<double> losses_;
  measure::Staleness staleness_;
  std::uint64_t steps_ = 0;       // that were taken
  std::uint64_t bytes_sent_ = 0;  // in them, by rank 0
  std::uint64_t bytes_uncompressed_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t dropped_ = 0;
};

World::World(WorldConfig config) : impl_(std::make_unique<Impl>(std::move(config))) { impl_->build(); }

World::~World() = default;

const config::RunPlan& World::plan() const { return impl_->config().plan; }
measure::StretchRecord World::run(int steps) { return impl_->run(steps); }
void World::describe(measure::RunSamples& samples) { impl_->describe(samples); }

std::vector<config::DeviceCondition> World::conditions() {
  const WorldConfig& config = impl_->config();
  auto conditions = config.backend->conditions();
  std::erase_if(conditions, [&](const auto& condition) {
    return std::ranges::find(config.plan.devices, condition.device) == config.plan.devices.end();
  });
  return conditions;
}

std::vector<int> World::processes() const {
  const cluster::Member* member = impl_->config().member;
  std::vector<int> processes;
  if (member == nullptr) return processes;
  const auto& peers = member->peers();
  const auto& self = peers.at(static_cast<std::size_t>(member->rank()));
  for (const auto& peer : peers) {
    if (peer.boot == self.boot && peer.rank != self.rank) processes.push_back(peer.process);
  }
  return processes;
}

Evaluation World::evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
  return impl_->evaluate(dataset);
}
int World::steps_per_epoch() const { return impl_->local().steps_per_epoch(); }
std::int64_t World::steps_taken() const { return impl_->local().steps_taken(); }
TrainingState World::save_state() {
  impl_->descriptions(true);
  return impl_->local().state();
}
void World::load_state(const TrainingState& state) { impl_->load_state(state); }
std::vector<float> World::weights(int rank) {
  impl_->bring_state();
  return impl_->local().weights(rank);
}
std::vector<float> World::gradients(int rank) {
  impl_->bring_state();
  return impl_->local().gradients(rank);
}

std::vector<std::string> World::weight_hashes() {
  std::vector<std::string> hashes;
  for (const auto& rank : impl_->descriptions(true)) {
    hashes.push_back(rank.weights_hash);
    if (!rank.devices_agree) hashes.push_back(rank.weights_hash + " on its first device alone");
  }
  return hashes;
}

const std::vector<double>& World::losses() const { return impl_->losses(); }

}  // namespace dtrain::train
