#include <algorithm>

#include "parameter_server/shards.hpp"

namespace dtrain::parameter_server {
namespace {

class TableClient final : public Client {
 public:
  TableClient(const TableConfig& config, int worker, std::unique_ptr<Shards> shards)
      : config_(config), worker_(worker), shards_(std::move(shards)) {}

  void initialise(std::span<float> weights, const Deadline& deadline) override {
    write(weights, {}, deadline);
    if (worker_ != 0) read_weights(weights, deadline);
  }

  Push push_pull(const Gradients& gradients, std::span<float> weights, const Deadline& deadline) override {
    check_size(gradients.values.size());
    check_size(weights.size());
    PushHead head{.step = version_ + 1,
                  .own_steps = own_steps_,
                  .images = gradients.images,
                  .step_images = gradients.step_images,
                  .finite = kernels::all_finite(gradients.values),
                  .update = gradients.update};
    Push push{.own_finite = head.finite};
    Shards::Came came;
    Shard::Admission admission;
    if (config_.policy.backups > 0) admission = shards_->admit(head.step, deadline);
    if (admission.in_time) {
      came = shards_->push(head, gradients.values, weights, deadline);
      bytes_sent_ += gradients.values.size_bytes();
      push.finite = came.finite;
    } else {
      push.dropped = true;
      came = shards_->catch_up(admission.version, own_steps_ + 1, weights, deadline);
    }
    ++own_steps_;
    // With backup workers others may have made the next update while this one was read.
    while (!config_.policy.async && came.oldest != came.newest) {
      came = shards_->catch_up(came.newest, own_steps_, weights, deadline);
    }
    version_ = came.oldest;
    push.version = version_;
    push.staleness = came.staleness;
    push.weights_finite = came.weights_finite;
    return push;
  }

  void rest() override {
    if (config_.policy.backups > 0) shards_->rest(own_steps_);
  }

  void read_weights(std::span<float> weights, const Deadline& deadline) override {
    check_size(weights.size());
    version_ = shards_->read(0, weights, deadline).oldest;
  }

  void read_state(int index, std::span<float> state, const Deadline& deadline) override {
    check_size(state.size());
    shards_->read(1 + index, state, deadline);
  }

  void write(std::span<const float> weights, const std::vector<std::span<const float>>& states,
             const Deadline& deadline) override {
    check_size(weights.size());
    for (const auto& state : states) check_size(state.size());
    if (worker_ == 0) {
      shards_->write(0, weights, deadline);
      for (std::size_t i = 0; i < states.size(); ++i) {
        shards_->write(static_cast<int>(i) + 1, states[i], deadline);
      }
    }
    shards_->settle(++settled_, deadline);
  }

  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void abort(const std::string& reason) override { shards_->abort(reason); }

 private:
  void check_size(std::size_t floats) const {
    if (floats != config_.size) throw std::logic_error("a buffer that is not as long as its table");
  }

  TableConfig config_;
  int worker_;
  std::unique_ptr<Shards> shards_;
  std::uint64_t version_ = 0;
  std::uint64_t own_steps_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace

void Shards::Came::add(const Shard::Taken& part) {
  oldest = std::min(oldest, part.version);
  newest = std::max(newest, part.version);
  staleness = std::max(staleness, part.staleness);
  finite = finite && part.finite;
  weights_finite = weights_finite && part.weights_finite;
}

std::unique_ptr<Client> make_client(const TableConfig& config, int worker, std::unique_ptr<Shards> shards) {
  if (worker < 0 || worker >= config.workers) throw std::logic_error("a worker that the table does not have");
  return std::make_unique<TableClient>(config, worker, std::move(shards));
}

}  // namespace dtrain::parameter_server
