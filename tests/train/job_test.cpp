#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "cluster/member.hpp"
#include "train/follower.hpp"
#include "train/orders.hpp"
#include "worlds.hpp"

// Jobs of several members, which are threads here, with their ranks connected over the loopback device.
namespace dtrain::train {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::WorldSetup;

// The workers of a job that train one run: `replicas` dealt to them in order.
class Job {
 public:
  Job(int workers, int replicas, int global_batch, testing::Faults faults = {},
      model::Model model = testing::softmax_regression())
      : members_(cluster::make_local_job(workers)) {
    for (int worker = 0; worker < workers; ++worker) {
      auto& setup = setups_.emplace_back(std::make_unique<WorldSetup>(replicas, global_batch, faults, model));
      setup->options.strategy = "multi-worker";
      setup->use("multi-worker", replicas, global_batch);
      const int each = (replicas + workers - 1) / workers;
      for (int rank = 0; rank < replicas; ++rank) setup->config.plan.workers.push_back(rank / each);
      setup->config.communicator = "gloo";
      setup->config.member = members_[static_cast<std::size_t>(worker)].get();
      for (int member = 0; member < workers; ++member) setup->config.members.push_back(member);
    }
    setups_.front()->config.leader = std::make_shared<Leader>(*members_.front());
  }

  WorldSetup& chief() { return *setups_.front(); }

  // Runs `lead` on the chief while the others follow; what they threw, "" for nothing.
  std::vector<std::string> run(const std::function<void(WorldSetup&)>& lead) {
    std::vector<std::string> thrown(setups_.size());
    std::vector<std::thread> threads;
    for (std::size_t worker = 1; worker < setups_.size(); ++worker) {
      threads.emplace_back([&, worker] {
        thrown[worker] = message_of(
            [&] { follow(*members_[worker], [&](const std::string&) { return setups_[worker]->config; }); });
      });
    }
    thrown[0] = message_of([&] {
      lead(chief());
      chief().config.leader->end(nullptr);
    });
    for (auto& thread : threads) thread.join();
    return thrown;
  }

 private:
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  std::vector<std::unique_ptr<cluster::Member>> members_;
  std::vector<std::unique_ptr<WorldSetup>> setups_;
};

void expect_nothing_thrown(const std::vector<std::string>& thrown) {
  EXPECT_THAT(thrown, ::testing::Each(""));
}

std::vector<double> losses_of_one_process(int replicas, int global_batch, int steps) {
  WorldSetup setup(replicas, global_batch);
  World world(setup.config);
  world.run(steps);
  return world.losses();
}

TEST(Job, TrainsAsOneProcessDoes) {
  for (const auto& [workers, replicas] : {std::pair{2, 2}, {2, 4}, {3, 5}}) {
    const auto wanted = losses_of_one_process(replicas, 12, 9);
    Job job(workers, replicas, 12);
    expect_nothing_thrown(job.run([&, replicas = replicas](WorldSetup& setup) {
      World world(setup.config);
      const auto stretch = world.run(4);
      ASSERT_EQ(std::ssize(stretch.ranks), replicas);
      world.run(5);
      ASSERT_EQ(world.losses().size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(world.losses()[i], wanted[i], 1e-5 * wanted[i]);
      const auto hashes = world.weight_hashes();
      ASSERT_EQ(std::ssize(hashes), replicas);
      EXPECT_THAT(hashes, ::testing::Each(hashes[0]));
    }));
  }
}

TEST(Job, ConsumesEveryImageOnce) {
  Job job(2, 3, 12);
  expect_nothing_thrown(job.run([](WorldSetup& setup) {
    World world(setup.config);
    const auto stretch = world.run(3);
    for (int step = 0; step < 3; ++step) {
      int images = 0;
      for (const auto& records : stretch.ranks) images += records[static_cast<std::size_t>(step)].images;
      EXPECT_EQ(images, 12);
    }
  }));
}

TEST(Job, EvaluatesAllImagesTogether) {
  WorldSetup alone(2, 12);
  World one(alone.config);
  const Evaluation wanted = one.evaluate(alone.config.data.test);
  Job job(2, 4, 12);
  expect_nothing_thrown(job.run([&](WorldSetup& setup) {
    World world(setup.config);
    const Evaluation found = world.evaluate(setup.config.data.test);
    EXPECT_EQ(found.images, wanted.images);
    EXPECT_NEAR(found.loss, wanted.loss, 1e-6);
    EXPECT_DOUBLE_EQ(found.accuracy, wanted.accuracy);
  }));
}

TEST(Job, GoesOnFromAState) {
  const auto wanted = losses_of_one_process(2, 12, 10);
  TrainingState state;
  {
    WorldSetup setup(2, 12);
    World world(setup.config);
    world.run(6);
    state = world.save_state();
  }
  Job job(2, 2, 12);
  expect_nothing_thrown(job.run([&](WorldSetup& setup) {
    World world(setup.config);
    world.run(2);
    world.load_state(state);
    world.run(4);
    ASSERT_EQ(world.losses().size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(world.losses()[i], wanted[6 + i], 1e-5 * wanted[6 + i]);
    const auto hashes = world.weight_hashes();
    EXPECT_EQ(hashes[0], hashes[1]);
  }));
}

TEST(Job, RunsAreMadeAndDroppedInTurns) {
  Job job(2, 2, 12);
  expect_nothing_thrown(job.run([](WorldSetup& setup) {
    auto first = std::make_unique<World>(setup.config);
    auto second = std::make_unique<World>(setup.config);
    first->run(2);
    second->run(2);
    first.reset();
    second->run(2);
    EXPECT_EQ(second->losses().size(), 4U);
  }));
}

TEST(Job, CountsBytesAndDescribesAllRanks) {
  Job job(2, 2, 12);
  expect_nothing_thrown(job.run([](WorldSetup& setup) {
    World world(setup.config);
    world.run(3);
    measure::RunSamples samples;
    samples.measured_steps = 3;
    world.describe(samples);
    EXPECT_TRUE(samples.weights_agree);
    // Of two ranks each sends all of its gradients once.
    const std::uint64_t parameters = setup.config.model->parameter_count;
    EXPECT_NEAR(static_cast<double>(samples.bytes_sent), 3.0 * 4.0 * static_cast<double>(parameters),
                3.0 * 64.0);
    EXPECT_EQ(samples.bytes_uncompressed, samples.bytes_sent);
    EXPECT_FALSE(samples.staleness);
  }));
}

TEST(Job, EndsForAllWithTheReasonOfTheChief) {
  Job job(2, 2, 12);
  const auto thrown = job.run([](WorldSetup& setup) {
    World world(setup.config);
    world.run(1);
    const Failure failure{.category = ErrorCategory::data, .what = "the disk is full"};
    setup.config.leader->end(&failure);
  });
  EXPECT_EQ(thrown[0], "");
  EXPECT_EQ(thrown[1], "the disk is full");
}

}  // namespace
}  // namespace dtrain::train
