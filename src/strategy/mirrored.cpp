#include "strategy/mirrored.hpp"

#include <limits>
#include <vector>

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

class Mirrored final : public Strategy {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<MirroredRank>(context);
  }
  int replicas_in_sync(const config::Options&, int replicas) const override { return replicas; }
  bool uses_collective() const override { return true; }
  bool spans_workers() const override { return false; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }
};

}  // namespace

std::shared_ptr<const Strategy> make_mirrored() { return std::make_shared<Mirrored>(); }

}  // namespace dtrain::strategy
