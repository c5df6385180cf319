#include "strategy/tensor.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "model/split.hpp"
#include "strategy/synchronous.hpp"
#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

// A replica's collectives, on the clock of communication.
class TimedCollective final : public backend::Collective {
 public:
  explicit TimedCollective(const RankContext& context) : context_(context) {}

  int rank() const override { return context_.communicator->rank(); }
  int size() const override { return context_.communicator->size(); }
  void all_reduce(std::span<float> data) override {
    const Communicating counted(context_.clock);
    const comm::Ticket ticket = context_.communicator->all_reduce(data, {});
    context_.communicator->wait(ticket, Deadline::in(context_.timeout));
  }
  void all_gather(std::span<float> data) override {
    const Communicating counted(context_.clock);
    context_.communicator->all_gather(data, Deadline::in(context_.timeout));
  }

 private:
  RankContext context_;
};

class TensorRank final : public RankStrategy {
 public:
  explicit TensorRank(const RankContext& context) : context_(context), collective_(context) {
    if (context.assignment != nullptr && context.assignment->part) context.replica->connect(collective_);
  }

  void before_step() override {}
  void bucket_ready(int, backend::DeviceToken) override {}
  bool arrives() const override { return false; }

  // Each rank sees the gradients of its own channels, and all are to update, or none.
  void synchronize() override {
    const double mine = context_.replica->outcome().own_finite ? 1.0 : 0.0;
    const std::vector<double> all = context_.communicator->all_gather_values(
        std::span<const double>(&mine, 1), Deadline::in(context_.timeout));
    all_finite_ = std::ranges::all_of(all, [](double finite) { return finite != 0.0; });
  }
  void apply(const kernels::OptimizerStep& step) override {
    if (all_finite_) update_all(context_, step);
  }
  std::optional<backend::StepOutcome> outcome() const override {
    backend::StepOutcome outcome = context_.replica->outcome();
    outcome.applied = outcome.applied && all_finite_;
    return outcome;
  }
  bool only_enqueues() const override { return false; }

 private:
  RankContext context_;
  TimedCollective collective_;
  bool all_finite_ = true;
};

void require_layers_to_split(const model::Model& model, int ranks) {
  int widest = 0;
  for (const model::Layer& layer : model.layers) {
    const bool weighted = std::holds_alternative<model::Convolution>(layer.operation) ||
                          std::holds_alternative<model::Dense>(layer.operation);
    if (weighted) widest = std::max(widest, layer.output.channels);
  }
  if (widest >= ranks) return;
  throw usage_error(
      fmt::format("--strategy tensor splits output channels over {} devices, and no layer of {} "
                  "has more than {}",
                  ranks, model.name, widest),
      fmt::format("use --gpus {} at most, or another strategy", std::max(widest, 1)));
}

// What rank 0 hands to others in a step, by the communicator's own count.
struct Traffic {
  double gathered = 0.0;  // bytes of all channels
  double summed = 0.0;
  double sent = 0.0;
};

Traffic traffic_of(const model::SplitCounts& counts, const AssignmentContext& context) {
  constexpr double word = sizeof(float);
  const int ranks = context.plan->replicas;
  Traffic traffic;
  for (int micro = 0; micro < context.options->accumulate; ++micro) {
    const double images = config::share_of(context.plan->global_batch, micro, context.options->accumulate);
    for (const model::Shape& shape : counts.gathered) {
      const double widest = model::channel_shares(shape.channels, ranks).front();
      traffic.gathered += word * images * static_cast<double>(shape.elements());
      traffic.sent += word * images * widest * shape.height * shape.width * (ranks - 1);
    }
    for (const model::Shape& shape : counts.summed) {
      const double bytes = word * images * static_cast<double>(shape.elements());
      traffic.summed += bytes;
      traffic.sent += 2.0 * bytes * (ranks - 1) / ranks;
    }
  }
  traffic.sent += static_cast<double>(sizeof(double)) * (ranks - 1);  // whether gradients are finite
  return traffic;
}

class Tensor final : public Synchronous {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<TensorRank>(context);
  }

  Assignment assign(const AssignmentContext& context) const override {
    const config::RunPlan& plan = *context.plan;
    Assignment assignment;
    if (plan.replicas > 1) {
      require_layers_to_split(*context.model, plan.replicas);
      assignment.part = model::split_channels(*context.model, context.rank, plan.replicas);
    }
    assignment.counts = context.rank == 0;
    assignment.max_batch = config::share_of(plan.global_batch, 0, context.options->accumulate);
    return assignment;
  }

  int shares(const config::Options&, int) const override { return 1; }
  bool sends_buckets() const override { return false; }

  std::vector<measure::Fact> facts(const AssignmentContext& context,
                                   const measure::RunSamples& samples) const override {
    const model::SplitCounts counts = model::count_split(*context.model, context.plan->replicas);
    const Traffic traffic = traffic_of(counts, context);
    const double steps = static_cast<double>(std::max<std::uint64_t>(samples.measured_steps, 1));
    return {{"split_layers", static_cast<double>(counts.split_layers), "count",
             "convolutions and dense layers whose output channels are split over the devices"},
            {"whole_layers", static_cast<double>(counts.whole_layers), "count",
             "those that every device computes whole"},
            {"repeated_share", counts.repeated_share, "share",
             "of a device's multiply-adds, those that every other device repeats"},
            {"gathered_bytes", traffic.gathered, "bytes", "activations put together in a step"},
            {"summed_bytes", traffic.summed, "bytes", "activation gradients summed in a step"},
            {"expected_bytes", traffic.sent, "bytes",
             "that a device hands to others in a step for it, by the shapes"},
            {"sent_bytes", static_cast<double>(samples.bytes_sent) / steps, "bytes",
             "that rank 0 did hand to others in a step"}};
  }

  void check(const config::Options& options) const override {
    const auto refuse = [](const std::string& flag, const char* why, const char* instead) {
      throw usage_error(fmt::format("{} does not go with --strategy tensor: {}", flag, why), instead);
    };
    if (options.compress != "none") {
      refuse("--compress " + options.compress,
             "what is exchanged are activations and their gradients, which every layer needs as they are",
             "leave --compress out, or use --strategy mirrored");
    }
    if (options.sync_every != 1) {
      refuse(fmt::format("--sync-every {}", options.sync_every), "devices meet in every layer",
             "leave --sync-every out, or use --strategy mirrored");
    }
    if (options.outer_momentum != 0.0) {
      refuse(fmt::format("--outer-momentum {}", options.outer_momentum), "no weights are averaged",
             "leave --outer-momentum out, or use --strategy mirrored with --sync-every");
    }
    constexpr const char* servers = "use --strategy parameter-server, or leave it out";
    if (options.updates != config::Updates::sync) {
      refuse("--updates " + config::name(options.updates), "all devices compute each step together", servers);
    }
    if (options.staleness) {
      refuse(fmt::format("--staleness {}", *options.staleness), "no gradient is ever old", servers);
    }
    if (options.backup_workers != 0) {
      refuse(fmt::format("--backup-workers {}", options.backup_workers), "each device's slice is needed",
             servers);
    }
    if (options.servers != 1) {
      refuse(fmt::format("--servers {}", options.servers), "there are no parameter servers", servers);
    }
  }
};

}  // namespace

std::shared_ptr<const Strategy> make_tensor() { return std::make_shared<Tensor>(); }

}  // namespace dtrain::strategy
