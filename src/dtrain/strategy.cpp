#include "dtrain/strategy.hpp"

#include <exception>
#include <numeric>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "cli/session.hpp"
#include "dtrain/driven_replica.hpp"
#include "dtrain/group.hpp"
#include "train/crew.hpp"
#include "train/dataset_slice.hpp"
#include "train/failure.hpp"

namespace dtrain {

namespace {

constexpr const char* run_name = "custom-loop";

cli::Session open(Options options) {
  set_up_log(options.quiet);
  options.dry_run = true;  // nothing is written
  return cli::open_session(std::move(options), config::make_train_plan);
}

// Servers would have no loop to run.
void require_workers_only(const cli::Session& session) {
  if (session.job.alone()) return;
  for (const auto& peer : session.job.member->peers()) {
    if (peer.role != "ps") continue;
    throw usage_error(
        fmt::format("{} is a parameter server, and a custom loop keeps its servers in its own process",
                    peer.describe()),
        "start workers only, or use `dtrain train`");
  }
}

void require_whole_replicas(const train::WorldConfig& config) {
  const std::string flag = "--strategy " + config.plan.strategy;
  if (config.plan.replicas > config.strategy->max_replicas()) {
    throw usage_error(fmt::format("{} drives {} replicas at most, and {} were asked for", flag,
                                  config.strategy->max_replicas(), config.plan.replicas),
                      "ask for fewer, or use --strategy mirrored");
  }
  const strategy::Assignment assignment = config.strategy->assign(
      {.model = config.model.get(), .options = config.options, .plan = &config.plan, .rank = 0});
  if (!assignment.part && !assignment.sharded && !config.strategy->one_loop()) return;
  throw usage_error(
      fmt::format("{}: its replicas hold parts of the model, and a custom loop needs the whole", flag),
      "use `dtrain train`, or single, mirrored, multi-worker or parameter-server here");
}

// What the user's function threw is the user's to explain.
train::Failure failure_of(int rank, std::int64_t step) {
  try {
    throw;
  } catch (const Error&) {
  } catch (const Interrupted&) {
  } catch (const train::Abandoned&) {
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    return {.rank = rank,
            .what = fmt::format("step {}, rank {}: {}", step, rank, error.what()),
            .advice = "the per-replica function threw this"};
  } catch (...) {
  }
  return train::failure_in_flight(rank, step);
}

}  // namespace

class Strategy::Impl {
 public:
  explicit Impl(Options options)
      : session_(open(std::move(options))),
        config_(config_of(session_)),
        ranks_(ranks_here(config_)),
        crew_(static_cast<int>(ranks_.size())) {
    require_workers_only(session_);
    require_whole_replicas(config_);
    for (const int rank : ranks_) replicas_.push_back(std::make_unique<DrivenReplica>(config_, rank));
    on_all([](DrivenReplica& replica, std::size_t) { replica.build(); });
    if (spans()) require_same_order();
    group_ = make_group(config_, progress_);
    shared_ = config_.strategy->share({.options = config_.options,
                                       .plan = &config_.plan,
                                       .flat_size = replicas_[0]->device().weights().size(),
                                       .member = spans() ? config_.member : nullptr,
                                       .name = config_.name,
                                       .tls = config_.tls});
    on_all([&](DrivenReplica& replica, std::size_t) { replica.join(group_.get(), shared_); });
  }

  // Replicas go on the threads that made them, when none uses another's; the job's chief goes last.
  ~Impl() {
    const bool thrown = std::uncaught_exceptions() > exceptions_;
    if (thrown && spans()) config_.member->fail(config_.member->rank(), "ended early");
    crew_.run([&](int index) {
      if (static_cast<std::size_t>(index) < replicas_.size())
        replicas_[static_cast<std::size_t>(index)]->release();
    });
    shared_.reset();
    group_.reset();
    if (!session_.job.alone()) cli::leave_job(session_.job, session_.options.timeout);
  }

  const cli::Session& session() const { return session_; }
  const train::WorldConfig& config() const { return config_; }
  std::size_t local_replicas() const { return ranks_.size(); }

  void run(const Job& job) {
    if (broken_) broken_->raise();
    begin_order();
    on_all([&](DrivenReplica& replica, std::size_t index) {
      const std::int64_t before = replica.step();
      job(replica, index);
      if (replica.step() != before) replica.rest();
    });
  }

  DistributedDataset distribute(const std::shared_ptr<const datasets::Dataset>& dataset) {
    if (dataset == nullptr) throw usage_error("there is no such data set", "distribute data().train");
    run([&](Replica& replica, std::size_t) { driven(replica).add(dataset); });
    DistributedDataset handle;
    handle.number_ = datasets_++;
    handle.steps_per_epoch_ = replicas_[0]->steps_per_epoch(handle.number_);
    handle.batches_per_epoch_ = handle.steps_per_epoch_ * session_.options.accumulate;
    return handle;
  }

  // By process of the job, this one's alone where it is alone.
  std::vector<std::vector<double>> gather(const std::vector<double>& mine) {
    if (!spans()) return {mine};
    const auto all = config_.member->all_gather("custom loop", ByteWriter().put(mine).bytes(),
                                                config_.members, Deadline::in(session_.options.timeout));
    std::vector<std::vector<double>> values;
    for (const auto& bytes : all) values.push_back(ByteReader(bytes, "values to reduce").get_all<double>());
    return values;
  }

  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
    if (dataset == nullptr) throw usage_error("there is no such data set", "evaluate data().train");
    run([](Replica& replica, std::size_t) { driven(replica).collect_state(); });
    const std::vector<float> statistics = statistics_of_first();
    std::vector<StepResult> sums(replicas_.size());
    run([&](Replica& replica, std::size_t index) {
      sums[index] = driven(replica).evaluate(share_of(dataset, replica.id()), statistics);
    });
    std::vector<double> mine(3, 0.0);
    for (const StepResult& sum : sums) {
      mine[0] += sum.loss_sum;
      mine[1] += sum.correct;
      mine[2] += sum.count;
    }
    std::vector<double> total(3, 0.0);
    for (const auto& values : gather(mine)) {
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += values.at(i);
    }
    return {.loss = total[0] / total[2], .accuracy = total[1] / total[2]};
  }

  std::vector<float> weights(int id) {
    const auto at = std::find(ranks_.begin(), ranks_.end(), id);
    if (at == ranks_.end()) {
      throw usage_error(fmt::format("replica {} is not in this process", id),
                        "ask for one that is here: run() tells their ids");
    }
    std::vector<float> values;
    run([&](Replica& replica, std::size_t) {
      driven(replica).collect_state();
      if (replica.id() == id) values = driven(replica).weights();
    });
    return values;
  }

 private:
  static DrivenReplica& driven(Replica& replica) { return static_cast<DrivenReplica&>(replica); }

  static train::WorldConfig config_of(const cli::Session& session) {
    const config::RunPlan& run = session.plan.runs.front();
    const std::int64_t steps = std::int64_t{session.options.epochs} * cli::steps_per_epoch(session, run);
    train::WorldConfig config = cli::world_config(session, run, steps);
    config.name = run_name;
    return config;
  }

  static std::vector<int> ranks_here(const train::WorldConfig& config) {
    const int here = config.member == nullptr ? 0 : config.member->rank();
    const auto& workers = config.plan.workers;
    std::vector<int> ranks;
    for (int rank = 0; rank < config.plan.replicas; ++rank) {
      if ((workers.empty() ? 0 : workers[static_cast<std::size_t>(rank)]) == here) ranks.push_back(rank);
    }
    if (ranks.empty()) {
      throw usage_error(fmt::format("{} replicas leave none for this worker", config.plan.replicas),
                        "ask for one a worker at least");
    }
    return ranks;
  }

  bool spans() const { return config_.members.size() > 1; }

  void begin_order() {
    if (!spans()) return;
    progress_->store(++orders_ << 32U);
    config_.member->announce(progress_->load());
  }

  // Flat buffers are exchanged as they lie.
  void require_same_order() {
    std::vector<double> mine;
    for (const backend::Slot& slot : replicas_[0]->device().slots()) {
      mine.insert(mine.end(), {static_cast<double>(slot.parameter), static_cast<double>(slot.range.offset),
                               static_cast<double>(slot.range.size)});
    }
    for (const auto& theirs : gather(mine)) {
      if (theirs == mine) continue;
      throw environment_error("workers keep weights in different orders, so that gradients cannot be added",
                              "their processors differ: use machines of one kind");
    }
  }

  template <class Work>
  void on_all(const Work& work) {
    failures_.clear();
    crew_.run([&](int number) {
      const auto index = static_cast<std::size_t>(number);
      DrivenReplica& replica = *replicas_[index];
      try {
        work(replica, index);
      } catch (...) {
        const train::Failure failure = failure_of(replica.id(), replica.step() + 1);
        if (failures_.add(failure)) tell_others(replica, failure);
      }
    });
    if (const auto cause = failures_.cause()) {
      broken_ = cause;
      cause->raise();
    }
  }

  void tell_others(DrivenReplica& replica, const train::Failure& failure) {
    replica.abort(failure.what);
    if (shared_) shared_->abort(failure.what);
    if (!spans() || failure.job_ended || failure.echo) return;
    config_.member->fail(config_.member->rank(), "failed: " + failure.what);
  }

  std::vector<float> statistics_of_first() {
    std::vector<float> values;
    run([&](Replica& replica, std::size_t index) {
      if (index == 0) values = driven(replica).statistics();
    });
    const auto all = gather({values.begin(), values.end()});
    return {all.front().begin(), all.front().end()};
  }

  std::shared_ptr<const datasets::Dataset> share_of(const std::shared_ptr<const datasets::Dataset>& dataset,
                                                    int rank) const {
    const auto bound = [&](int index) {
      return dataset->size() * static_cast<std::size_t>(index) /
             static_cast<std::size_t>(config_.plan.replicas);
    };
    return std::make_shared<train::DatasetSlice>(dataset, bound(rank), bound(rank + 1) - bound(rank));
  }

  int exceptions_ = std::uncaught_exceptions();
  cli::Session session_;
  train::WorldConfig config_;
  std::vector<int> ranks_;  // of the replicas here, ascending
  std::vector<std::unique_ptr<DrivenReplica>> replicas_;
  std::unique_ptr<comm::LocalGroup> group_;
  std::shared_ptr<strategy::Shared> shared_;
  SharedProgress progress_ = std::make_shared<std::atomic<cluster::Progress>>(0);
  cluster::Progress orders_ = 0;
  std::size_t datasets_ = 0;
  train::FailureLog failures_;
  std::optional<train::Failure> broken_;
  train::Crew crew_;
};

Strategy::Strategy(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Strategy::~Strategy() = default;

int Strategy::num_replicas_in_sync() const {
  return impl_->config().strategy->replicas_in_sync(options(), num_replicas());
}
int Strategy::num_replicas() const { return impl_->config().plan.replicas; }
int Strategy::global_batch() const { return impl_->config().plan.global_batch; }
const Options& Strategy::options() const { return impl_->session().options; }
const model::Model& Strategy::model() const { return *impl_->session().model; }
const datasets::Cifar10& Strategy::data() const { return impl_->session().data; }

DistributedDataset Strategy::distribute(const std::shared_ptr<const datasets::Dataset>& dataset) {
  return impl_->distribute(dataset);
}
Evaluation Strategy::evaluate(const std::shared_ptr<const datasets::Dataset>& dataset) {
  return impl_->evaluate(dataset);
}
std::vector<float> Strategy::weights(int id) { return impl_->weights(id); }

void Strategy::on_replicas(const Job& job) { impl_->run(job); }
std::size_t Strategy::local_replicas() const { return impl_->local_replicas(); }

double Strategy::reduce_values(ReduceOp operation, std::vector<double> values) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const auto& each : impl_->gather(values)) {
    sum = std::accumulate(each.begin(), each.end(), sum);
    count += each.size();
  }
  return operation == ReduceOp::sum ? sum : sum / static_cast<double>(count);
}

}  // namespace dtrain
