#include "strategy/single.hpp"

#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

class SingleRank final : public RankStrategy {
 public:
  explicit SingleRank(const RankContext& context) : context_(context) {}

  void before_step() override {}
  void bucket_ready(int, backend::DeviceToken) override {}
  void synchronize() override {}
  void apply(const kernels::OptimizerStep& step) override { update_all(context_, step); }
  bool only_enqueues() const override { return true; }

 private:
  RankContext context_;
};

class Single final : public Strategy {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<SingleRank>(context);
  }
  void check(const config::Options& options) const override {
    const auto refuse = [](const std::string& flag) {
      throw usage_error(
          fmt::format("{}: --strategy single trains on one device, with nobody to exchange with", flag),
          "use --strategy mirrored, multi-worker or parameter-server");
    };
    if (options.compress != "none") refuse("--compress " + options.compress);
    if (options.sync_every != 1) refuse(fmt::format("--sync-every {}", options.sync_every));
    if (options.updates != config::Updates::sync) refuse("--updates " + config::name(options.updates));
  }
  int replicas_in_sync(const config::Options&, int) const override { return 1; }
  bool uses_collective() const override { return false; }
  bool spans_workers() const override { return false; }
  bool runs_on(const std::string&) const override { return true; }
  int max_replicas() const override { return 1; }
};

}  // namespace

std::shared_ptr<const Strategy> make_single() { return std::make_shared<Single>(); }

}  // namespace dtrain::strategy
