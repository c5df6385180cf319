// A strategy of one's own, in one file: gossip. Every replica updates with its own gradients and then meets
// one other replica, with which it averages weights: its neighbour to the right in even steps, to the left in
// odd ones. Nobody waits for all, and what one replica learns reaches the others in some steps. It does not
// train as one replica does, and `gossip verify --strategy gossip` says so.
//
// The program is dtrain with one strategy more:
//
//   gossip bench --strategy gossip --gpus 1,2,4

#include <dtrain/dtrain.hpp>

#include <limits>
#include <vector>

#include "strategy/update.hpp"

namespace {

using dtrain::config::Options;
using dtrain::strategy::RankContext;

// Drives one replica. The engine calls before_step, bucket_ready as gradients become final, then, as updates
// come first here, apply and synchronize. It keeps the time.
class GossipRank final : public dtrain::strategy::RankStrategy {
 public:
  explicit GossipRank(const RankContext& context)
      : context_(context), received_(context.replica->weights().size()) {}

  void before_step() override {}
  void bucket_ready(int, dtrain::backend::DeviceToken) override {}  // gradients stay here
  bool synchronizes_last() const override { return true; }
  void apply(const dtrain::kernels::OptimizerStep& step) override {
    dtrain::strategy::update_all(context_, step);
  }

  void synchronize() override {
    const int other = partner();
    ++step_;
    if (other < 0) return;
    const auto deadline = dtrain::Deadline::in(context_.timeout);
    const auto mine = context_.replica->weights();
    context_.communicator->send(mine, other, deadline);
    context_.communicator->receive(received_, other, deadline);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = 0.5F * (mine[i] + received_[i]);
  }
  // For evaluation and checkpoints: the mean of all.
  void collect_state() override {
    const auto mine = context_.replica->weights();
    context_.communicator->wait(context_.communicator->all_reduce(mine, {}),
                                dtrain::Deadline::in(context_.timeout));
    for (float& weight : mine) weight /= static_cast<float>(context_.replicas);
  }
  bool only_enqueues() const override { return false; }

 private:
  // Pairs (0 1)(2 3)... in even steps and (1 2)(3 4)... in odd ones; -1 at an end without a neighbour.
  int partner() const {
    const bool right = (context_.rank + step_) % 2 == 0;
    const int other = context_.rank + (right ? 1 : -1);
    return other < context_.replicas ? other : -1;
  }

  RankContext context_;
  std::vector<float> received_;
  int step_ = 0;
};

class Gossip final : public dtrain::strategy::Strategy {
 public:
  std::unique_ptr<dtrain::strategy::RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<GossipRank>(context);
  }
  void check(const Options& options) const override {
    if (options.compress == "none") return;
    throw dtrain::usage_error("--compress is for gradients, and gossip sends weights", "leave it out");
  }
  bool runs_on(const std::string& device) const override { return device == "cpu"; }  // averages on the host
  int replicas_in_sync(const Options&, int) const override {
    return 1;
  }                                                       // each updates with its own gradients
  bool uses_collective() const override { return true; }  // a communicator is needed
  bool spans_workers() const override { return false; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }
};

}  // namespace

int main(int argc, char** argv) {
  return dtrain::run_program([&] {
    dtrain::add_strategy("gossip", "own updates, then weights averaged with a neighbour",
                         std::make_shared<Gossip>());
    return dtrain::run_command_line(argc, argv);
  });
}
