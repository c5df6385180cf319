#include "strategy/parameter_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "fake_replica.hpp"

namespace dtrain::strategy {
namespace {

using testing::FakeReplica;
using ::testing::HasSubstr;

// Softmax regression's replicas, each with a strategy of its own; an image each a step.
class ParameterServers : public ::testing::Test {
 protected:
  void start(int count) {
    plan.id = fmt::format("parameter-server-{}", count);
    plan.replicas = count;
    plan.global_batch = count;
    shared = strategy().share(run(nullptr));
    make_replicas(count);
    at_once(count, [&](int rank) { attach(rank, shared); });
  }

  static const Strategy& strategy() { return *strategies().at("parameter-server").value; }

  RunContext run(cluster::Member* member) const {
    return {.options = &options, .plan = &plan, .flat_size = flat_size, .member = member, .name = "run 1"};
  }

  void make_replicas(int count) {
    for (int rank = 0; rank < count; ++rank) {
      backend::ReplicaConfig config;
      config.model = &model;
      config.max_batch = 4;
      config.optimizer = options.optimizer;
      replicas.push_back(std::make_unique<FakeReplica>(config, std::make_shared<testing::Faults>(), alive));
      std::ranges::fill(replicas.back()->weights(), static_cast<float>(1 + rank));
    }
    ranks.resize(static_cast<std::size_t>(count));
  }

  void attach(int rank, const std::shared_ptr<Shared>& with) {
    const auto index = static_cast<std::size_t>(rank);
    ranks[index] = strategy().attach({.rank = rank,
                                      .replicas = plan.replicas,
                                      .replica = replicas[index].get(),
                                      .options = &options,
                                      .shared = with,
                                      .timeout = timeout});
  }

  // A step of one image whose gradients are all the same.
  void step(int rank, float gradient) {
    const auto index = static_cast<std::size_t>(rank);
    FakeReplica& replica = *replicas[index];
    const std::vector<float> image(3072);
    const std::int32_t label = 0;
    ranks[index]->before_step();
    replica.forward(0, {.images = image.data(), .labels = &label, .count = 1});
    replica.backward(0, 1.0F, true, true, *ranks[index]);
    std::ranges::fill(replica.gradients(), gradient);
    ASSERT_TRUE(ranks[index]->synchronizes_last());
    ranks[index]->apply({.learning_rate = 0.5, .momentum = 0.0});
    ranks[index]->synchronize();
  }

  float weight(int rank) {
    const auto weights = replicas[static_cast<std::size_t>(rank)]->weights();
    for (const float value : weights) EXPECT_EQ(value, weights[0]);
    return weights[0];
  }

  template <class Work>
  static void at_once(int count, const Work& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }

  void expect_refused(const std::string& what) {
    try {
      strategy().check(options);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage);
      EXPECT_THAT(error.what(), HasSubstr(what));
      EXPECT_NE(error.advice(), "");
    }
  }

  static config::Options defaults() {
    config::Options chosen;
    chosen.optimizer = "sgd";
    return chosen;
  }

  static constexpr std::size_t flat_size = 144;
  config::Options options = defaults();
  config::RunPlan plan;
  Seconds timeout{20.0};
  model::Model model = testing::softmax_regression();
  std::shared_ptr<std::atomic<int>> alive = std::make_shared<std::atomic<int>>(0);
  std::vector<std::unique_ptr<FakeReplica>> replicas;
  std::shared_ptr<Shared> shared;
  std::vector<std::unique_ptr<RankStrategy>> ranks;
};

TEST_F(ParameterServers, SayWhatTheyNeed) {
  EXPECT_EQ(strategies().at("ParameterServerStrategy").name, "parameter-server");
  EXPECT_FALSE(strategy().uses_collective());
  EXPECT_TRUE(strategy().communicates());
  EXPECT_TRUE(strategy().uses_servers());
  EXPECT_TRUE(strategy().spans_workers());
  EXPECT_GE(strategy().max_replicas(), 1000);
  EXPECT_EQ(strategy().replicas_in_sync(options, 4), 4);
  options.updates = config::Updates::async;
  EXPECT_EQ(strategy().replicas_in_sync(options, 4), 1);
}

TEST_F(ParameterServers, InStepAllHaveTheSameWeights) {
  options.servers = 2;
  start(2);
  EXPECT_EQ(weight(1), 1.0F);  // rank 0's
  at_once(2, [&](int rank) { step(rank, rank == 0 ? 0.25F : 0.5F); });
  EXPECT_EQ(weight(0), 0.625F);  // 1 - 0.5 x 0.75
  EXPECT_EQ(weight(1), 0.625F);
  EXPECT_EQ(ranks[0]->report().staleness, 0);
  EXPECT_FALSE(ranks[0]->report().dropped);
  EXPECT_TRUE(ranks[0]->outcome()->applied);
  EXPECT_TRUE(ranks[0]->outcome()->weights_finite);
  EXPECT_EQ(ranks[1]->bytes_sent(), flat_size * sizeof(float));
  EXPECT_FALSE(ranks[0]->only_enqueues());
}

TEST_F(ParameterServers, EveryRankKnowsWhoseGradientWasBad) {
  start(2);
  at_once(2, [&](int rank) { step(rank, rank == 0 ? 1.0F : std::numeric_limits<float>::quiet_NaN()); });
  for (const auto& rank : ranks) EXPECT_FALSE(rank->outcome()->applied);
  EXPECT_TRUE(ranks[0]->outcome()->own_finite);
  EXPECT_FALSE(ranks[1]->outcome()->own_finite);
  EXPECT_EQ(weight(0), 1.0F);
}

TEST_F(ParameterServers, WithoutWaitingStalenessIsReported) {
  options.updates = config::Updates::async;
  start(2);
  step(0, 1.0F);
  step(0, 1.0F);
  EXPECT_EQ(weight(0), 0.0F);
  step(1, 1.0F);
  EXPECT_EQ(ranks[1]->report().staleness, 2);
  EXPECT_EQ(weight(1), -0.5F);
}

TEST_F(ParameterServers, BackupWorkersAreWeighedAndDropped) {
  options.backup_workers = 1;
  start(2);
  step(1, 1.0F);  // one image of two: counts twice
  EXPECT_EQ(weight(1), 0.0F);
  step(0, 1.0F);
  EXPECT_TRUE(ranks[0]->report().dropped);
  EXPECT_TRUE(ranks[0]->outcome()->applied);
  EXPECT_EQ(weight(0), 0.0F);
  for (const auto& rank : ranks) rank->rest();
}

TEST_F(ParameterServers, StateIsCollectedAndDistributed) {
  start(2);
  at_once(2, [&](int rank) { step(rank, 1.0F); });
  for (const auto& rank : ranks) rank->collect_state();
  for (const float velocity : replicas[0]->optimizer_state(0)) ASSERT_EQ(velocity, 2.0F);
  std::ranges::fill(replicas[0]->weights(), 8.0F);
  std::ranges::fill(replicas[0]->optimizer_state(0), 4.0F);
  at_once(2, [&](int rank) { ranks[static_cast<std::size_t>(rank)]->distribute_state(); });
  EXPECT_EQ(weight(1), 8.0F);
  at_once(2, [&](int rank) { step(rank, 1.0F); });
  EXPECT_EQ(weight(1), 7.0F);  // a momentum of 0 forgets the velocity
  replicas[0]->optimizer_state(0)[0] = 0.0F;
  ranks[0]->collect_state();
  EXPECT_EQ(replicas[0]->optimizer_state(0)[0], 2.0F);
}

TEST_F(ParameterServers, AbortEndsAWait) {
  start(2);
  std::string message;
  at_once(2, [&](int rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      shared->abort("rank 1 failed: out of memory");
      return;
    }
    try {
      step(0, 1.0F);
    } catch (const Error& error) {
      message = error.what();
    }
  });
  EXPECT_EQ(message, "rank 1 failed: out of memory");
}

TEST_F(ParameterServers, AWaitNamesTheRankThatIsMissing) {
  timeout = Seconds(0.05);
  start(3);
  try {
    step(1, 1.0F);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("waited 0.05 s for the gradients of workers 0, 2"));
  }
}

// A sweep begins with one replica, whatever its largest count can spare.
TEST_F(ParameterServers, FewerReplicasSpareFewer) {
  options.backup_workers = 2;
  start(2);
  step(1, 1.0F);  // does not wait for the other
  EXPECT_EQ(weight(1), 0.0F);
  step(0, 1.0F);
  EXPECT_TRUE(ranks[0]->report().dropped);
  for (const auto& rank : ranks) rank->rest();
}

TEST_F(ParameterServers, RefuseWhatDoesNotGoTogether) {
  EXPECT_NO_THROW(strategy().check(options));
  options.sync_every = 4;
  expect_refused("--sync-every 4");
  options = defaults();
  options.compress = "fp16";
  expect_refused("--compress fp16");
  options = defaults();
  options.staleness = 3;
  expect_refused("--staleness 3");
  options.updates = config::Updates::async;
  EXPECT_NO_THROW(strategy().check(options));
  options.backup_workers = 1;
  expect_refused("--backup-workers 1");
  options = defaults();
  options.backup_workers = 1;
  EXPECT_NO_THROW(strategy().check(options));
  options.last_batch = config::LastBatch::keep;
  expect_refused("--last-batch keep");
  options.last_batch = config::LastBatch::drop;
  options.precision = config::Precision::fp16;
  expect_refused("--precision fp16");
}

// Two processes with replicas and two servers, which are threads here: the way over the network is the real
// one.
class JobMember final : public cluster::Member {
 public:
  JobMember(std::unique_ptr<cluster::Member> inner, std::vector<cluster::Peer> peers)
      : inner_(std::move(inner)), peers_(std::move(peers)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::vector<cluster::Peer>& peers() const override { return peers_; }
  void set(const std::string& key, std::string_view value) override { inner_->set(key, value); }
  std::string get(const std::string& key, const Deadline& deadline) override {
    return inner_->get(key, deadline);
  }
  std::optional<std::string> try_get(const std::string& key) override { return inner_->try_get(key); }
  void erase(const std::string& key) override { inner_->erase(key); }
  std::vector<std::string> all_gather(const std::string& name, std::string_view mine,
                                      const std::vector<int>& members, const Deadline& deadline) override {
    return inner_->all_gather(name, mine, members, deadline);
  }
  void announce(cluster::Progress progress) override { inner_->announce(progress); }
  std::optional<int> first_behind(cluster::Progress progress, const std::vector<int>& members) override {
    return inner_->first_behind(progress, members);
  }
  void fail(int rank, const std::string& reason) override { inner_->fail(rank, reason); }
  std::optional<cluster::Loss> loss() const override { return inner_->loss(); }
  void check() const override { inner_->check(); }
  Handle on_loss(std::function<void(const cluster::Loss&)> call) override {
    return inner_->on_loss(std::move(call));
  }
  ClockOffset clock_offset() override { return inner_->clock_offset(); }
  void leave(const Deadline& deadline) override { inner_->leave(deadline); }

 private:
  std::unique_ptr<cluster::Member> inner_;
  std::vector<cluster::Peer> peers_;
};

TEST_F(ParameterServers, OfAJobAreReachedOverTheNetwork) {
  std::vector<cluster::Peer> peers(4);
  for (int i = 0; i < 4; ++i) {
    peers[static_cast<std::size_t>(i)].rank = i;
    peers[static_cast<std::size_t>(i)].role = i < 2 ? "worker" : "ps";
    peers[static_cast<std::size_t>(i)].index = i % 2;
    peers[static_cast<std::size_t>(i)].reached_at = "127.0.0.1";
  }
  auto inner = cluster::make_local_job(4);
  std::vector<std::unique_ptr<JobMember>> members;
  for (auto& member : inner) members.push_back(std::make_unique<JobMember>(std::move(member), peers));

  plan.id = "parameter-server-2";
  plan.replicas = 2;
  plan.global_batch = 2;
  make_replicas(2);
  std::vector<std::shared_ptr<Shared>> sides(4);
  at_once(4, [&](int process) {
    const auto index = static_cast<std::size_t>(process);
    const RunContext context = run(members[index].get());
    if (process >= 2) {
      sides[index] = strategy().serve(context);
      return;
    }
    sides[index] = strategy().share(context);
    attach(process, sides[index]);
    step(process, process == 0 ? 0.25F : 0.5F);
    step(process, 1.0F);
  });
  EXPECT_EQ(weight(0), -0.375F);  // 1 - 0.5 x 0.75 - 0.5 x 2
  EXPECT_EQ(weight(1), -0.375F);
  ranks.clear();
}

TEST_F(ParameterServers, AJobWithoutServersIsRefused) {
  auto job = cluster::make_local_job(2);
  plan.replicas = 2;
  try {
    strategy().share(run(job[0].get()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("needs parameter servers"));
  }
}

}  // namespace
}  // namespace dtrain::strategy
