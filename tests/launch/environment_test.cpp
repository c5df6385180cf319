#include <gmock/gmock.h>

#include "config/tf_config.hpp"
#include "launch/child_environment.hpp"

namespace dtrain::launch {
namespace {

using testing::ElementsAre;

const std::vector<config::Task> tasks{
    {"chief", 0, "127.0.0.1:1001"}, {"worker", 0, "127.0.0.1:1002"}, {"ps", 0, "127.0.0.1:1003"}};

TEST(ChildEnvironment, EachTaskFindsItsPlaceInItsTfConfig) {
  EXPECT_EQ(tf_config({{"worker", 0, "a:1"}, {"worker", 1, "b:2"}}, {"worker", 1, "b:2"}),
            R"({"cluster":{"worker":["a:1","b:2"]},"task":{"index":1,"type":"worker"}})");
  for (int rank = 0; rank < 3; ++rank) {
    const auto& task = tasks[static_cast<std::size_t>(rank)];
    const auto place = config::parse_tf_config(tf_config(tasks, task));
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.world, 3);
    EXPECT_EQ(place.role, task.role);
    EXPECT_EQ(place.index, task.index);
  }
}

TEST(ChildEnvironment, LosesWhatOtherLaunchersLeft) {
  const char* const inherited[] = {"PATH=/bin",
                                   "RANK=1",
                                   "WORLD_SIZE=2",
                                   "RANKING=kept",
                                   "LOCAL_RANK=0",
                                   "MASTER_ADDR=x",
                                   "MASTER_PORT=1",
                                   "TF_CONFIG={}",
                                   "DTRAIN_JOB_TOKEN=old",
                                   "SLURM_PROCID=1",
                                   "PMI_RANK=1",
                                   "PMIX_RANK=1",
                                   "OMPI_COMM_WORLD_RANK=1",
                                   "TORCHELASTIC_RUN_ID=1",
                                   "OMP_NUM_THREADS=2",
                                   nullptr};
  EXPECT_THAT(child_environment(inherited, "{new}", "secret"),
              ElementsAre("PATH=/bin", "RANKING=kept", "OMP_NUM_THREADS=2", "TF_CONFIG={new}",
                          "DTRAIN_JOB_TOKEN=secret"));
}

TEST(ChildEnvironment, ATokenIsLongAndNewEveryTime) {
  const std::string token = make_job_token();
  EXPECT_THAT(token, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(token.size(), 64U);
  EXPECT_NE(token, make_job_token());
}

}  // namespace
}  // namespace dtrain::launch
