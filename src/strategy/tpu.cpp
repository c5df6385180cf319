#include "strategy/tpu.hpp"

#include <limits>

#include "base/error.hpp"
#include "strategy/server_flags.hpp"

namespace dtrain::strategy {
namespace {

// The replica's program does all that a strategy would.
class TpuRank final : public RankStrategy {
 public:
  void before_step() override {}
  void bucket_ready(int, backend::DeviceToken) override {}
  void synchronize() override {}
  void apply(const kernels::OptimizerStep&) override {}
  bool only_enqueues() const override { return true; }
};

// Of the steps' time, the part in which a program of XLA was being run.
double execution_share(const measure::RunSamples& samples) {
  double fused = 0.0;
  double steps = 0.0;
  for (const auto& round : samples.rounds) {
    for (const auto& rank : round.ranks) {
      fused += rank.fused * round.steps;
      steps += (rank.input + rank.fused + rank.host) * round.steps;
    }
  }
  return steps > 0.0 ? fused / steps : 0.0;
}

void require_delays_of_the_loop(const config::Options& options) {
  for (const auto& delay : options.injected_delays) {
    if (delay.rank == 0) continue;
    throw usage_error(fmt::format("--inject-delay rank={}: under --strategy tpu one loop drives all devices, "
                                  "and a delay holds all of them up",
                                  delay.rank),
                      "use rank=0, or --strategy mirrored on --device cpu");
  }
}

class Tpu final : public Strategy {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext&) const override {
    return std::make_unique<TpuRank>();
  }

  void check(const config::Options& options) const override {
    const auto refuse = [](const std::string& flag, const char* advice) {
      throw usage_error(fmt::format("{}: --strategy tpu sums gradients inside of the compiled step, in "
                                    "every step and in full",
                                    flag),
                        advice);
    };
    constexpr const char* leave_out = "leave it out, or use --strategy mirrored on --device cpu";
    for (const auto& flag : server_flags(options)) refuse(flag, leave_out);
    if (options.outer_momentum != 0.0) {
      refuse(fmt::format("--outer-momentum {}", options.outer_momentum), leave_out);
    }
    if (options.compress != "none") refuse("--compress " + options.compress, leave_out);
    if (options.sync_every != 1) refuse(fmt::format("--sync-every {}", options.sync_every), leave_out);
    if (options.comm != "auto") refuse("--comm " + options.comm, "leave it out");
    require_delays_of_the_loop(options);
  }

  // All images of a step; the replica divides them among its devices.
  Assignment assign(const AssignmentContext& context) const override {
    Assignment assignment;
    assignment.devices = context.plan->replicas;
    assignment.max_batch = config::share_of(context.plan->global_batch, 0, context.options->accumulate);
    return assignment;
  }

  std::vector<measure::Fact> facts(const AssignmentContext&,
                                   const measure::RunSamples& samples) const override {
    if (samples.rounds.empty()) return {};
    return {{"xla_share", execution_share(samples), "share",
             "of a step, from the call that starts the compiled program until the last device had finished "
             "it: XLA's and the device's own"}};
  }

  int replicas_in_sync(const config::Options&, int replicas) const override { return replicas; }
  bool one_loop() const override { return true; }
  bool uses_collective() const override { return false; }
  bool spans_workers() const override { return false; }
  bool runs_on(const std::string& device) const override { return device == "tpu"; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }
};

}  // namespace

std::shared_ptr<const Strategy> make_tpu() { return std::make_shared<Tpu>(); }

}  // namespace dtrain::strategy
