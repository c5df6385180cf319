#include "strategy/mirrored.hpp"

#include <limits>
#include <vector>

#include "base/error.hpp"
#include "strategy/local_sgd.hpp"
#include "strategy/server_flags.hpp"
#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

class MirroredRank final : public RankStrategy {
 public:
  explicit MirroredRank(const RankContext& context) : context_(context) {
    tickets_.reserve(context.replica->buckets().size());
  }

  void before_step() override { tickets_.clear(); }

  void bucket_ready(int bucket, backend::DeviceToken ready) override {
    const backend::Range range = context_.replica->buckets()[static_cast<std::size_t>(bucket)];
    const auto gradients = context_.replica->gradients().subspan(range.offset, range.size);
    tickets_.push_back(context_.communicator->all_reduce(gradients, ready));
    context_.communicator->progress();
  }

  void synchronize() override {
    const Deadline deadline = Deadline::in(context_.timeout);
    for (const comm::Ticket ticket : tickets_) context_.communicator->wait(ticket, deadline);
  }

  void apply(const kernels::OptimizerStep& step) override { update_all(context_, step); }
  bool only_enqueues() const override { return context_.communicator->only_enqueues(); }

 private:
  RankContext context_;
  std::vector<comm::Ticket> tickets_;
};

struct Facts {
  const char* name;
  bool spans_workers;
};

void refuse_others_flags(const config::Options& options, const char* name) {
  const auto given = server_flags(options);
  if (given.empty()) return;
  const std::string& flag = given.front();
  throw usage_error(
      fmt::format("{} belongs to --strategy parameter-server, not to {}", flag, name),
      fmt::format("use --strategy parameter-server, or leave {} out", flag.substr(0, flag.find(' '))));
}

void check_local_sgd(const config::Options& options) {
  const std::string flag = fmt::format("--sync-every {}", options.sync_every);
  if (options.sync_every == 1) {
    if (options.outer_momentum == 0.0) return;
    throw usage_error(
        fmt::format("--outer-momentum {} needs weights that are averaged now and then, and {} sums "
                    "gradients in every step",
                    options.outer_momentum, flag),
        "add --sync-every with a number above 1, or leave --outer-momentum out");
  }
  if (options.compress != "none") {
    throw usage_error(
        fmt::format("--compress {} is for gradients, and {} sends weights", options.compress, flag),
        "leave one of them out");
  }
  if (options.precision == config::Precision::fp16) {
    throw usage_error(
        fmt::format("{} does not go with --precision fp16: a replica whose gradients overflow would "
                    "skip a step that the others take",
                    flag),
        "use --precision bf16 or fp32, or leave --sync-every out");
  }
  if (options.device == "cuda") {
    throw usage_error(fmt::format("{}: weights of GPU replicas cannot be averaged yet", flag),
                      "use --device cpu, or leave --sync-every out");
  }
}

class Mirrored final : public Strategy {
 public:
  explicit Mirrored(Facts facts) : facts_(facts) {}

  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    if (context.options != nullptr && is_local(*context.options)) return make_local_sgd(context);
    return std::make_unique<MirroredRank>(context);
  }
  void check(const config::Options& options) const override {
    refuse_others_flags(options, facts_.name);
    check_local_sgd(options);
  }
  int replicas_in_sync(const config::Options& options, int replicas) const override {
    return is_local(options) ? 1 : replicas;
  }
  bool uses_collective() const override { return true; }
  bool spans_workers() const override { return facts_.spans_workers; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }

 private:
  static bool is_local(const config::Options& options) { return options.sync_every > 1; }

  Facts facts_;
};

}  // namespace

std::shared_ptr<const Strategy> make_mirrored() {
  return std::make_shared<Mirrored>(Facts{.name = "mirrored", .spans_workers = false});
}

std::shared_ptr<const Strategy> make_multi_worker() {
  return std::make_shared<Mirrored>(Facts{.name = "multi-worker", .spans_workers = true});
}

}  // namespace dtrain::strategy
