#include "strategy/strategy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fake_replica.hpp"

namespace dtrain::strategy {
namespace {

using ::testing::ElementsAre;
using testing::FakeReplica;
using ::testing::HasSubstr;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Writes down what it is asked for. Its sums double, as if another rank had the same gradients.
class RecordingCommunicator final : public comm::Communicator {
 public:
  std::vector<std::string> calls;
  float* base = nullptr;
  Seconds allowed{0.0};
  bool enqueues = false;

  bool only_enqueues() const override { return enqueues; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  comm::Ticket all_reduce(std::span<float> data, backend::DeviceToken) override {
    calls.push_back(fmt::format("all_reduce {}+{}", data.data() - base, data.size()));
    for (float& value : data) value *= 2.0F;
    return next_++;
  }
  void progress() override { calls.emplace_back("progress"); }
  void wait(comm::Ticket ticket, const Deadline& deadline) override {
    calls.push_back(fmt::format("wait {}", ticket));
    allowed = deadline.allowed();
  }
  void reduce_scatter(std::span<float>, const Deadline&) override { unexpected(); }
  void all_gather(std::span<float>, const Deadline&) override { unexpected(); }
  void broadcast(std::span<float>, int, const Deadline&) override { unexpected(); }
  std::vector<double> all_gather_values(std::span<const double>, const Deadline&) override {
    return unexpected();
  }
  void send(std::span<const float>, int, const Deadline&) override { unexpected(); }
  void receive(std::span<float>, int, const Deadline&) override { unexpected(); }
  void barrier(const Deadline&) override { unexpected(); }
  void abort(const std::string&) override { unexpected(); }
  std::unique_ptr<comm::Communicator> split(int, const Deadline&) override {
    unexpected();
    return nullptr;
  }
  std::uint64_t bytes_sent() const override { return 0; }

 private:
  static std::vector<double> unexpected() { throw std::logic_error("collective that was not expected"); }
  comm::Ticket next_ = 7;
};

class Strategies : public ::testing::Test {
 protected:
  std::unique_ptr<RankStrategy> attach(const std::string& name, bool loss_scaling = false) {
    communicator.base = replica.gradients().data();
    return strategies().at(name).value->attach({.rank = 0,
                                                .replicas = 2,
                                                .replica = &replica,
                                                .communicator = name == "single" ? nullptr : &communicator,
                                                .timeout = Seconds(1.5),
                                                .loss_scaling = loss_scaling});
  }

  void fill(float weight, float gradient) {
    std::ranges::fill(replica.weights(), weight);
    std::ranges::fill(replica.gradients(), gradient);
  }

  backend::ReplicaConfig replica_config() const {
    backend::ReplicaConfig config;
    config.model = &model;
    config.max_batch = 4;
    config.optimizer = "sgd";
    return config;
  }

  model::Model model = testing::softmax_regression();
  FakeReplica replica{replica_config(), std::make_shared<testing::Faults>(),
                      std::make_shared<std::atomic<int>>(0)};
  RecordingCommunicator communicator;
  kernels::OptimizerStep step{.learning_rate = 0.5, .momentum = 0.0};
};

TEST_F(Strategies, AreFoundByBothTheirNames) {
  EXPECT_EQ(strategies().at("OneDeviceStrategy").name, "single");
  EXPECT_EQ(strategies().at("MirroredStrategy").name, "mirrored");
  EXPECT_EQ(strategies().at("MultiWorkerMirroredStrategy").name, "multi-worker");
  try {
    strategies().at("mirored");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.advice(), HasSubstr("did you mean 'mirrored'?"));
  }
}

TEST_F(Strategies, SayWhatTheyNeed) {
  const auto& single = *strategies().at("single").value;
  EXPECT_EQ(single.max_replicas(), 1);
  EXPECT_EQ(single.replicas_in_sync({}, 1), 1);
  EXPECT_FALSE(single.uses_collective());
  EXPECT_FALSE(single.spans_workers());
  const auto& mirrored = *strategies().at("mirrored").value;
  EXPECT_GE(mirrored.max_replicas(), 1000);
  EXPECT_EQ(mirrored.replicas_in_sync({}, 4), 4);
  EXPECT_TRUE(mirrored.uses_collective());
  EXPECT_FALSE(mirrored.spans_workers());
  const auto& multi_worker = *strategies().at("multi-worker").value;
  EXPECT_GE(multi_worker.max_replicas(), 1000);
  EXPECT_EQ(multi_worker.replicas_in_sync({}, 4), 4);
  EXPECT_TRUE(multi_worker.uses_collective());
  EXPECT_TRUE(multi_worker.spans_workers());
}

TEST_F(Strategies, SingleUpdatesWithoutACommunicator) {
  const auto single = attach("single");
  fill(1.0F, 2.0F);
  single->before_step();
  single->bucket_ready(0, {});
  single->synchronize();
  single->apply(step);
  EXPECT_TRUE(replica.outcome().applied);
  EXPECT_TRUE(single->only_enqueues());
  for (const float weight : replica.weights()) EXPECT_FLOAT_EQ(weight, 0.0F);  // 1 - 0.5 x 2
}

TEST_F(Strategies, MirroredStartsEachBucketAtOnceAndWaitsForAllAtTheEnd) {
  const auto mirrored = attach("mirrored");
  fill(1.0F, 0.5F);
  for (int repeat = 0; repeat < 2; ++repeat) {
    communicator.calls.clear();
    mirrored->before_step();
    mirrored->bucket_ready(0, {});
    EXPECT_THAT(communicator.calls, ElementsAre("all_reduce 128+16", "progress"));
    mirrored->bucket_ready(1, {});
    mirrored->synchronize();
    const int first = 7 + 2 * repeat;
    EXPECT_THAT(communicator.calls,
                ElementsAre("all_reduce 128+16", "progress", "all_reduce 0+128", "progress",
                            fmt::format("wait {}", first), fmt::format("wait {}", first + 1)));
    EXPECT_DOUBLE_EQ(communicator.allowed.count(), 1.5);
    mirrored->apply(step);
    EXPECT_TRUE(replica.outcome().applied);
  }
  // Gradients summed to 1, then to 2: 1 - 0.5 x 1 - 0.5 x 2.
  for (const float weight : replica.weights()) EXPECT_FLOAT_EQ(weight, -0.5F);
}

TEST_F(Strategies, ABadSumIsNotApplied) {
  for (const char* name : {"single", "mirrored"}) {
    const auto strategy = attach(name);
    fill(1.0F, 0.5F);
    strategy->before_step();
    replica.gradients()[130] = nan;
    strategy->synchronize();
    strategy->apply(step);
    EXPECT_FALSE(replica.outcome().applied) << name;
  }
}

TEST_F(Strategies, MirroredCanBeRecordedIfItsCommunicatorCan) {
  EXPECT_FALSE(attach("mirrored")->only_enqueues());
  communicator.enqueues = true;
  EXPECT_TRUE(attach("mirrored")->only_enqueues());
}

TEST_F(Strategies, UnderLossScalingARefusedUpdateLeavesEverythingAlone) {
  for (const char* name : {"single", "mirrored"}) {
    const auto strategy = attach(name, true);
    fill(1.0F, 0.5F);
    std::ranges::fill(replica.optimizer_state(0), 3.0F);
    strategy->before_step();
    replica.gradients()[143] = nan;  // the very last
    strategy->synchronize();
    strategy->apply(step);
    EXPECT_FALSE(replica.outcome().applied) << name;
    for (const float weight : replica.weights()) ASSERT_EQ(weight, 1.0F) << name;
    for (const float value : replica.optimizer_state(0)) ASSERT_EQ(value, 3.0F) << name;
  }
}

// What the contract of Replica promises by default.
TEST_F(Strategies, OptimizerStateLeavesAndEntersInCanonicalOrder) {
  std::vector<float> state(model.parameter_count);
  std::iota(state.begin(), state.end(), 1.0F);
  std::vector<float> weights(model.parameter_count, 0.25F);
  replica.import_weights(weights);
  replica.import_optimizer_state(1, state);
  EXPECT_EQ(replica.optimizer_state(1)[119], 1.0F);  // slots of the fake run backwards
  EXPECT_EQ(replica.optimizer_state(1)[0], 120.0F);
  EXPECT_EQ(replica.optimizer_state(1)[120], 0.0F);  // padding
  std::vector<float> back(model.parameter_count);
  replica.export_optimizer_state(1, back);
  EXPECT_EQ(back, state);
  std::vector<float> kept(model.parameter_count);
  replica.export_weights(kept);
  EXPECT_EQ(kept, weights);
}

}  // namespace
}  // namespace dtrain::strategy
