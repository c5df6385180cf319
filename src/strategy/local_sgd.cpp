#include "strategy/local_sgd.hpp"

#include <algorithm>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

// Where weights were when replicas last had the same, and how far their mean usually goes from there.
class OuterMomentum {
 public:
  OuterMomentum(double momentum, std::size_t size)
      : momentum_(static_cast<float>(momentum)), start_(size), velocity_(size) {}

  void start_from(std::span<const float> weights) { std::ranges::copy(weights, start_.data()); }
  void forget() { std::ranges::fill(velocity_.span(), 0.0F); }

  // `weights` are the mean, and become what comes of it.
  void step(std::span<float> weights) {
    const float* x = start_.data();
    float* u = velocity_.data();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      u[i] = momentum_ * u[i] + (x[i] - weights[i]);
      weights[i] = x[i] - u[i];
    }
  }

 private:
  float momentum_;
  AlignedBuffer<float> start_;
  AlignedBuffer<float> velocity_;
};

class LocalSgdRank final : public RankStrategy {
 public:
  explicit LocalSgdRank(const RankContext& context) : context_(context) {
    if (context.options->outer_momentum > 0.0) {
      outer_.emplace(context.options->outer_momentum, context.replica->weights().size());
    }
  }

  void before_step() override {
    if (outer_ && local_steps_ == 0) outer_->start_from(context_.replica->weights());
  }
  void bucket_ready(int, backend::DeviceToken) override {}
  void apply(const kernels::OptimizerStep& step) override {
    update_all(context_, step);
    ++local_steps_;
  }
  bool synchronizes_last() const override { return true; }

  void synchronize() override {
    averaged_ = local_steps_ >= context_.options->sync_every;
    if (averaged_) average();
  }

  StepReport report() const override { return {.communicated = averaged_}; }
  void collect_state() override {
    if (local_steps_ > 0) average();
  }
  void distribute_state() override {
    local_steps_ = 0;
    if (outer_) outer_->forget();
  }
  bool only_enqueues() const override { return false; }

 private:
  void average() {
    const auto weights = context_.replica->weights();
    comm::Communicator& communicator = *context_.communicator;
    communicator.wait(communicator.all_reduce(weights, {}), Deadline::in(context_.timeout));
    const auto replicas = static_cast<float>(context_.replicas);
    for (float& weight : weights) weight /= replicas;
    if (outer_) outer_->step(weights);
    local_steps_ = 0;
  }

  RankContext context_;
  std::optional<OuterMomentum> outer_;
  int local_steps_ = 0;  // since the last synchronization
  bool averaged_ = false;
};

}  // namespace

std::unique_ptr<RankStrategy> make_local_sgd(const RankContext& context) {
  if (context.replica->stream().device >= 0) {
    throw usage_error(fmt::format("--sync-every {}: weights of GPU replicas cannot be averaged yet",
                                  context.options->sync_every),
                      "use --device cpu, or leave --sync-every out");
  }
  return std::make_unique<LocalSgdRank>(context);
}

}  // namespace dtrain::strategy
