#include "strategy/sharded.hpp"

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "strategy/gathered_weights.hpp"
#include "strategy/gradient_shares.hpp"
#include "strategy/server_flags.hpp"
#include "strategy/sharded_memory.hpp"
#include "strategy/shares.hpp"
#include "strategy/synchronous.hpp"

namespace dtrain::strategy {
namespace {

using backend::FlatBuffer;
using backend::Range;

// Stages 1 and 2: weights are whole, and every rank updates its part of them for all.
class ShardedRank : public RankStrategy {
 public:
  explicit ShardedRank(const RankContext& context)
      : context_(context),
        shares_(context.replica->buckets(), context.rank, context.replicas),
        gradients_(context, shares_, gradients_go_early(*context.options)),
        states_(kernels::optimizers().at(context.options->optimizer).value.states),
        flags_(static_cast<std::size_t>(context.replicas) * line) {
    if (gradients_go_early(*context.options)) context.replica->set_weight_source(&gradients_);
  }
  ~ShardedRank() override { context_.replica->set_weight_source(nullptr); }
  ShardedRank(const ShardedRank&) = delete;
  ShardedRank& operator=(const ShardedRank&) = delete;

  void before_step() override {
    decided_.reset();
    if (collected_) ShardedRank::distribute_state();
  }

  void bucket_ready(int bucket, backend::DeviceToken) override {
    gradients_.start(bucket);
    gradients_.progress();
  }

  bool arrives() const override { return !gradients_go_early(*context_.options); }
  void synchronize() override { gradients_.finish(); }

  void apply(const kernels::OptimizerStep& step) override {
    if (context_.loss_scaling && !all_gradients_finite()) return;
    for (int bucket = 0; bucket < shares_.buckets(); ++bucket) {
      context_.replica->update(shares_.own(bucket), step, false);
      after_update(bucket);
    }
    const backend::StepOutcome own = context_.replica->outcome();
    decide(own.applied, own.weights_finite);
  }

  // A rank sees its own part of gradients and weights, and all must decide alike.
  std::optional<backend::StepOutcome> outcome() const override {
    backend::StepOutcome outcome = context_.replica->outcome();
    if (!decided_) return outcome;
    outcome.applied = decided_->applied;
    outcome.weights_finite = decided_->weights_finite;
    return outcome;
  }

  void collect_state() override {
    gather(context_.replica->gradients());
    for (int index = 0; index < states_; ++index) gather(context_.replica->optimizer_state(index));
    collected_ = true;
  }

  void distribute_state() override {
    release_others(FlatBuffer::optimizer);
    if (gradients_go_early(*context_.options)) release_others(FlatBuffer::gradients);
    collected_ = false;
  }

  bool shares_state() const override { return true; }
  bool only_enqueues() const override { return false; }

 protected:
  virtual void after_update(int bucket) { start_gather(context_.replica->weights(), bucket); }

  const RankContext& context() const { return context_; }
  const Shares& shares() const { return shares_; }
  GradientShares& gradients() { return gradients_; }

 private:
  static constexpr std::size_t line = 16;  // floats of a rank's part of a buffer, at least

  struct Decision {
    bool applied = true;
    bool weights_finite = true;
  };

  // Comes after the weights that are on their way, so that these are here as well.
  void decide(bool applied, bool weights_finite) {
    const Communicating communicating(context_.clock);
    const auto flags = [&](int rank) {
      return flags_.span().subspan(static_cast<std::size_t>(rank) * line, 2);
    };
    const auto own = flags(context_.rank);
    own[0] = applied ? 1.0F : 0.0F;
    own[1] = weights_finite ? 1.0F : 0.0F;
    comm::Communicator& communicator = *context_.communicator;
    communicator.wait(communicator.start_all_gather(flags_.span(), deadline()), deadline());
    decided_.emplace();
    for (int rank = 0; rank < context_.replicas; ++rank) {
      decided_->applied = decided_->applied && flags(rank)[0] == 1.0F;
      decided_->weights_finite = decided_->weights_finite && flags(rank)[1] == 1.0F;
    }
  }

  // Before the update, which would otherwise have changed weights on some ranks.
  bool all_gradients_finite() {
    bool finite = true;
    for (int bucket = 0; bucket < shares_.buckets(); ++bucket) {
      const Range own = shares_.own(bucket);
      finite = finite && kernels::all_finite(context_.replica->gradients().subspan(own.offset, own.size));
    }
    decide(finite, true);
    return decided_->applied;
  }

  comm::Ticket start_gather(std::span<float> flat, int bucket) {
    const Range range = shares_.whole(bucket);
    return context_.communicator->start_all_gather(flat.subspan(range.offset, range.size), deadline());
  }

  void gather(std::span<float> flat) {
    for (int bucket = 0; bucket < shares_.buckets(); ++bucket) {
      context_.communicator->wait(start_gather(flat, bucket), deadline());
    }
  }

  void release_others(FlatBuffer buffer) {
    for (int bucket = 0; bucket < shares_.buckets(); ++bucket) {
      for (const Range part : shares_.others(bucket)) context_.replica->release(buffer, part);
    }
  }

  Deadline deadline() const { return Deadline::in(context_.timeout); }

  const RankContext context_;
  const Shares shares_;
  GradientShares gradients_;
  const int states_;
  AlignedBuffer<float> flags_;       // a line of each rank
  std::optional<Decision> decided_;  // of this step, by all ranks
  bool collected_ = false;           // the others' parts are here
};

// Stage 3: no rank has all weights but between steps, where somebody asks for them.
class GatheringRank final : public ShardedRank {
 public:
  explicit GatheringRank(const RankContext& context)
      : ShardedRank(context), weights_(this->context(), shares(), gradients()) {
    context.replica->set_weight_source(nullptr);
  }

  void before_step() override {
    ShardedRank::before_step();
    if (!whole_) return;
    whole_ = false;
    weights_.give_back_all();
    context().replica->set_weight_source(&weights_);
  }

  bool arrives() const override { return false; }
  bool computes() const override { return true; }
  backend::BatchResult result() const override { return context().replica->result(slot); }
  backend::BatchResult evaluate(const backend::Batch& batch) override {
    return context().replica->evaluate(batch);
  }

  void compute(const backend::MicroStep& micro, backend::GradientSink& sink) override {
    weights_.go(config::Phase::forward);
    const bool idle = micro.batch.count == 0;
    if (idle) {
      go_forward();
    } else {
      context().replica->forward(slot, micro.batch);
    }
    if (context().clock != nullptr) context().clock->enter(config::Phase::backward);
    weights_.go(config::Phase::backward);
    if (idle) {
      go_backward(micro, sink);
    } else {
      context().replica->backward(slot, micro.gradient_scale, micro.first, micro.last, sink);
    }
  }

  void collect_state() override {
    ShardedRank::collect_state();
    if (whole_) return;
    weights_.bring_all();
    hold_all_weights();
  }

  // Weights stay until the next step: evaluation may come first.
  void distribute_state() override {
    ShardedRank::distribute_state();
    hold_all_weights();
  }

 protected:
  void after_update(int) override {}

 private:
  static constexpr int slot = 0;

  void hold_all_weights() {
    whole_ = true;
    context().replica->set_weight_source(nullptr);
  }

  void go_forward() {
    for (int bucket = shares().buckets() - 1; bucket >= 0; --bucket) {
      weights_.pass(bucket);
      weights_.leave(bucket);
    }
  }

  void go_backward(const backend::MicroStep& micro, backend::GradientSink& sink) {
    if (micro.first && micro.last) context().replica->clear_gradients();
    for (int bucket = 0; bucket < shares().buckets(); ++bucket) {
      weights_.pass(bucket);
      if (micro.last) sink.bucket_ready(bucket, {});
      weights_.leave(bucket);
    }
  }

  GatheredWeights weights_;
  bool whole_ = true;
};

void refuse(const std::string& flag, const char* why, const char* advice) {
  throw usage_error(fmt::format("{} does not go with --strategy sharded: {}", flag, why), advice);
}

void require_own_flags(const config::Options& options) {
  constexpr const char* of_servers = "it belongs to --strategy parameter-server";
  constexpr const char* elsewhere = "use --strategy parameter-server, or leave it out";
  for (const auto& flag : server_flags(options)) refuse(flag, of_servers, elsewhere);
}

class Sharded final : public Synchronous {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    if (context.options->zero_stage == 3) return std::make_unique<GatheringRank>(context);
    return std::make_unique<ShardedRank>(context);
  }

  void check(const config::Options& options) const override {
    require_own_flags(options);
    constexpr const char* use_mirrored = "use --strategy mirrored (or multi-worker), or leave it out";
    if (options.compress != "none") {
      refuse("--compress " + options.compress,
             "gradients are summed in parts, which compressors do not work on", use_mirrored);
    }
    if (options.sync_every != 1) {
      refuse(fmt::format("--sync-every {}", options.sync_every),
             "no replica has all it needs to go on without the others", use_mirrored);
    }
    if (options.outer_momentum != 0.0) {
      refuse(fmt::format("--outer-momentum {}", options.outer_momentum), "weights are never averaged",
             use_mirrored);
    }
  }

  Assignment assign(const AssignmentContext& context) const override {
    Assignment assignment = Strategy::assign(context);
    assignment.sharded = true;
    assignment.zero_stage = context.options->zero_stage;
    assignment.whole_gradients = !gradients_go_early(*context.options);
    assignment.bucket_bytes = bucket_bytes(context);
    return assignment;
  }

  std::vector<measure::Fact> facts(const AssignmentContext& context,
                                   const measure::RunSamples& samples) const override {
    return memory_facts(context, samples);
  }
};

}  // namespace

std::shared_ptr<const Strategy> make_sharded() { return std::make_shared<Sharded>(); }

}  // namespace dtrain::strategy
