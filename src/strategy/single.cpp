#include "strategy/single.hpp"

#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

class SingleRank final : public RankStrategy {
 public:
  explicit SingleRank(const RankContext& context) : context_(context) {}

  void before_step() override { finite_ = true; }
  void bucket_ready(int, backend::DeviceToken) override {}
  void synchronize() override {}
  bool apply(const kernels::OptimizerStep& step) override { return finite_ = update_all(context_, step); }
  bool own_gradients_finite() const override { return finite_; }

 private:
  RankContext context_;
  bool finite_ = true;
};

class Single final : public Strategy {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<SingleRank>(context);
  }
  int replicas_in_sync(int) const override { return 1; }
  bool uses_collective() const override { return false; }
  bool spans_workers() const override { return false; }
  int max_replicas() const override { return 1; }
};

}  // namespace

std::shared_ptr<const Strategy> make_single() { return std::make_shared<Single>(); }

}  // namespace dtrain::strategy
