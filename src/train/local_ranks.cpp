#include "train/local_ranks.hpp"

#include <algorithm>
#include <barrier>
#include <numeric>

#include "base/hash.hpp"
#include "base/text.hpp"
#include "comm/spanning_group.hpp"
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
  const int loops = config.strategy->one_loop() ? 1 : plan.replicas;
  for (const auto& delay : config.delays) {
    if (delay.rank < 0 || delay.rank >= loops) {
      throw usage_error(fmt::format("--inject-delay rank={}: --strategy {} has {} rank{} to delay",
                                    delay.rank, plan.strategy, loops, loops == 1 ? "" : "s"),
                        loops == 1 ? "use rank=0" : fmt::format("ranks go from 0 to {}", loops - 1));
    }
    if (delay.phase == config::Phase::communication && !config.strategy->communicates()) {
      throw usage_error(
          fmt::format("--inject-delay phase=communication: --strategy {} has none", plan.strategy),
          "delay another phase, or use --strategy mirrored");
    }
  }
}

// Ranks of this process, ascending.
std::vector<int> ranks_here(const WorldConfig& config) {
  if (config.strategy->one_loop()) return {0};
  std::vector<int> ranks;
  const int here = config.member == nullptr ? 0 : config.member->rank();
  for (int rank = 0; rank < config.plan.replicas; ++rank) {
    const auto& workers = config.plan.workers;
    if ((workers.empty() ? 0 : workers[static_cast<std::size_t>(rank)]) == here) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

class LocalRanks::Impl {
 public:
  explicit Impl(WorldConfig config)
      : config_(std::move(config)),
        numbers_(ranks_here(config_)),
        start_(std::ssize(numbers_)),
        crew_(static_cast<int>(numbers_.size())) {
    ranks_.reserve(numbers_.size());
    for (const int number : numbers_) ranks_.emplace_back(config_, failures_, number);
  }

  // Replicas, pipelines and communicators go on the threads that made them, when no rank uses another's.
  ~Impl() {
    crew_.run([&](int index) { ranks_[static_cast<std::size_t>(index)].release(); });
  }

  FlatLayout build() {
    on_all([](Rank& rank) { rank.build(); });
    FlatLayout layout;
    on_first([&](Rank& rank) {
      layout = {rank.replica().weights().size(), spans() ? rank.layout_hash() : 0};
      if (rank.holds_part()) layout = {};
    });
    return layout;
  }

  void join(std::size_t flat_size) {
    if (config_.strategy->uses_collective()) group_ = make_group();
    shared_ = config_.strategy->share({.options = config_.options,
                                       .plan = &config_.plan,
                                       .flat_size = flat_size,
                                       .member = spans() ? config_.member : nullptr,
                                       .name = config_.name,
                                       .tls = config_.tls});
    on_all([&](Rank& rank) { rank.join(group_.get(), shared_); });
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
        const Failure failure = failure_in_flight(rank.number(), kind == Kind::steps ? rank.step() + 1 : 0);
        if (failures_.add(failure)) tell_others(rank, failure);
      }
    });
    if (const auto cause = failures_.cause()) {
      broken_ = cause;
      cause->raise();
    }
  }

  template <class Job>
  void on_first(const Job& job) {
    on_all([&](Rank& rank) {
      if (rank.number() == numbers_.front()) job(rank);
    });
  }

  template <class Job>
  void on_rank(int number, const Job& job) {
    if (!holds(number)) throw std::logic_error(fmt::format("rank {} is in another process", number));
    on_all([&](Rank& rank) {
      if (rank.number() == number) job(rank);
    });
  }

  void require_sound() const {
    if (broken_) broken_->raise();
  }

  LocalStretch run(int steps) {
    require_sound();
    LocalStretch stretch;
    stretch.ranks.assign(ranks_.size(), std::vector<measure::StepRecord>(static_cast<std::size_t>(steps)));
    announce(steps);
    const std::uint64_t sent = ranks_[0].bytes_sent();
    const std::uint64_t uncompressed = ranks_[0].bytes_uncompressed();
    on_all(
        [&](Rank& rank) {
          start_.arrive_and_wait();
          rank.run(stretch.ranks[static_cast<std::size_t>(rank.number() - numbers_.front())]);
        },
        Kind::steps);
    stretch.bytes_sent = ranks_[0].bytes_sent() - sent;
    stretch.bytes_uncompressed = ranks_[0].bytes_uncompressed() - uncompressed;
    return stretch;
  }

  std::vector<Evaluation> evaluate(const std::shared_ptr<const datasets::Dataset>& dataset,
                                   std::span<const float> statistics) {
    require_sound();
    std::vector<Evaluation> sums(ranks_.size());
    on_all([&](Rank& rank) {
      rank.collect_state();
      rank.import_statistics(statistics);
      const auto [share, shares] = rank.share();
      sums[static_cast<std::size_t>(rank.number() - numbers_.front())] =
          rank.evaluate(share_of(dataset, share, shares));
    });
    return sums;
  }

  std::vector<RankDescription> describe(bool with_weights) {
    std::vector<RankDescription> ranks(ranks_.size());
    on_all([&](Rank& rank) {
      RankDescription& description = ranks[static_cast<std::size_t>(rank.number() - numbers_.front())];
      description.memory = rank.replica().memory();
      if (!with_weights) return;
      rank.collect_state();
      Hash hash;
      hash.add(std::span<const float>(rank.weights()));
      description.weights_hash = hash.hex();
      description.devices_agree = rank.replica().devices_agree();
    });
    return ranks;
  }

  void load(const TrainingState& state) {
    require_sound();
    on_all([&](Rank& rank) { rank.load(state); });
  }

  const std::string& exchange() const { return exchange_; }
  const std::optional<Failure>& failure() const { return broken_; }
  void begin_order(std::uint64_t order) {
    if (!spans()) return;
    progress_->store(order << 32U);
    config_.member->announce(progress_->load());
  }

  bool holds(int rank) const { return std::ranges::find(numbers_, rank) != numbers_.end(); }
  const WorldConfig& config() const { return config_; }
  const Rank& first() const { return ranks_[0]; }
  bool holds_whole_state() { return ranks_[0].holds_whole_state(); }

 private:
  bool spans() const { return config_.members.size() > 1; }

  std::unique_ptr<comm::LocalGroup> make_group() {
    const config::Options& options = *config_.options;
    if (spans()) return make_spanning_group();
    const comm::LocalGroupConfig local{.size = config_.plan.replicas,
                                       .oversubscribed = config_.plan.simulated};
    if (options.compress != "none") {
      return comm::make_compressed_local_group(local, options.compress, options.seed);
    }
    return comm::local_communicators().at(config_.communicator).value(local);
  }

  std::unique_ptr<comm::LocalGroup> make_spanning_group() {
    const config::Options& options = *config_.options;
    std::vector<int> members;
    std::vector<int> process_of;
    for (const int worker : config_.plan.workers) {
      if (members.empty() || members.back() != worker) members.push_back(worker);
      process_of.push_back(static_cast<int>(members.size()) - 1);
    }
    auto exchange = comm::exchanges()
                        .at(config_.communicator)
                        .value({.member = config_.member,
                                .members = members,
                                .name = config_.name,
                                .algorithm = options.allreduce,
                                .timeout = options.timeout,
                                .busy_cores = config_.plan.simulated,
                                .progress = [progress = progress_] { return progress->load(); }});
    const std::size_t bucket = std::min(static_cast<std::size_t>(options.bucket_mb * 1e6),
                                        ranks_[0].replica().gradients().size_bytes());
    if (ranks_[0].share().second > 1)
      exchange_ = fmt::format("; a bucket of {} goes by {}: {}{}", format_bytes(static_cast<double>(bucket)),
                              config_.communicator, exchange->describe_all_reduce(bucket),
                              std::ssize(process_of) > std::ssize(members)
                                  ? ", after the replicas of each process were summed"
                                  : "");
    return comm::make_spanning_group(
        std::move(exchange),
        {.process_of = process_of,
         .compress = options.compress,
         .seed = options.seed,
         .oversubscribed = config_.plan.simulated,
         .timeout = options.timeout,
         .on_start = [member = config_.member, progress = progress_] { member->announce(++*progress); }});
  }

  // A rank that only received what was not finite leaves it to the one whose value it was.
  void tell_others(Rank& rank, const Failure& failure) {
    rank.abort(failure.what);
    if (shared_) shared_->abort(failure.what);
    if (!spans() || failure.job_ended || failure.echo) return;
    config_.member->fail(config_.member->rank(),
                         failure.interrupted ? "was interrupted" : "failed: " + failure.what);
  }

  void announce(int steps) const {
    if (config_.live == nullptr) return;
    measure::LiveStep& live = *config_.live;
    live.steps = 0;
    live.images = 0;
    live.planned = steps;
    live.begin_ns = now_ns();
  }

  // Contiguous parts, in the order of shares.
  std::shared_ptr<const datasets::Dataset> share_of(const std::shared_ptr<const datasets::Dataset>& dataset,
                                                    int share, int shares) const {
    const std::size_t size = dataset->size();
    const auto bound = [&](int index) {
      return size * static_cast<std::size_t>(index) / static_cast<std::size_t>(shares);
    };
    return std::make_shared<DatasetSlice>(dataset, bound(share), bound(share + 1) - bound(share));
  }

  WorldConfig config_;
  std::vector<int> numbers_;  // of the ranks here, ascending without gaps
  FailureLog failures_;       // of the job that runs
  std::optional<Failure> broken_;
  std::unique_ptr<comm::LocalGroup> group_;
  std::shared_ptr<strategy::Shared> shared_;
  std::string exchange_;
  std::vector<Rank> ranks_;
  std::barrier<> start_;
  // Of this member in its job: the order that is carried out, and the collectives started since.
  std::shared_ptr<std::atomic<cluster::Progress>> progress_ =
      std::make_shared<std::atomic<cluster::Progress>>(0);
  Crew crew_;
};

LocalRanks::LocalRanks(WorldConfig config) {
  check(config);
  impl_ = std::make_unique<Impl>(std::move(config));
}

LocalRanks::~LocalRanks() = default;

void LocalRanks::begin_order(std::uint64_t order) { impl_->begin_order(order); }
FlatLayout LocalRanks::build() { return impl_->build(); }
void LocalRanks::join(std::size_t flat_size) { impl_->join(flat_size); }
LocalStretch LocalRanks::run(int steps) { return impl_->run(steps); }

std::vector<Evaluation> LocalRanks::evaluate(const std::shared_ptr<const datasets::Dataset>& dataset,
                                             std::span<const float> statistics) {
  return impl_->evaluate(dataset, statistics);
}

std::vector<RankDescription> LocalRanks::describe(bool with_weights) { return impl_->describe(with_weights); }
void LocalRanks::load(const TrainingState& state) { impl_->load(state); }

double LocalRanks::stamp_seconds() {
  double seconds = 0.0;
  impl_->on_first([&](Rank& rank) { seconds = rank.stamp_seconds(); });
  return seconds;
}

TrainingState LocalRanks::state() {
  TrainingState state;
  impl_->on_rank(0, [&](Rank& rank) { state = rank.state(); });
  return state;
}

std::vector<float> LocalRanks::weights(int rank) {
  std::vector<float> values;
  impl_->on_rank(rank, [&](Rank& owner) { values = owner.weights(); });
  return values;
}

std::vector<float> LocalRanks::gradients(int rank) {
  std::vector<float> values;
  impl_->on_rank(rank, [&](Rank& owner) { values = owner.gradients(); });
  return values;
}

int LocalRanks::stamps_per_step() const { return impl_->first().stamps_per_step(); }
double LocalRanks::loss_scale() const { return impl_->first().loss_scale(); }
int LocalRanks::steps_per_epoch() const { return impl_->first().pipeline().steps_per_epoch(); }
std::int64_t LocalRanks::steps_taken() const { return impl_->first().step(); }
const std::string& LocalRanks::exchange() const { return impl_->exchange(); }
const std::optional<Failure>& LocalRanks::failure() const { return impl_->failure(); }
const WorldConfig& LocalRanks::config() const { return impl_->config(); }
bool LocalRanks::holds_whole_state() const { return impl_->holds_whole_state(); }
bool LocalRanks::holds(int rank) const { return impl_->holds(rank); }

}  // namespace dtrain::train
