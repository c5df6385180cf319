#include "config/launch_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/tf_config.hpp"
#include "expect_error.hpp"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Variables = std::map<std::string, std::string>;

LaunchEnvironment read(const Variables& variables, bool spans_workers = true,
                       const ClusterFlags& flags = ClusterFlags()) {
  const EnvironmentLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  using Names = std::vector<std::string>;
  return read_launch_environment(lookup, flags, spans_workers ? Names{} : Names{"one", "another"});
}

void expect_refused(const Variables& variables, const std::vector<std::string>& words,
                    bool spans_workers = true) {
  expect_error([&] { read(variables, spans_workers); }, ErrorCategory::usage, words);
}

std::string cluster(const std::string& roles, const std::string& task = R"({"type":"worker","index":0})") {
  return R"({"cluster":{)" + roles + R"(},"task":)" + task + "}";
}

TEST(LaunchEnvironment, IsOneProcessWhenNothingIsSet) {
  const auto found = read({});
  EXPECT_EQ(found.source, "none");
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.world, 1);
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(LaunchEnvironment, ReadsEveryLauncher) {
  const auto torch =
      read({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(torch.source, "torchrun");
  EXPECT_EQ(torch.rank, 1);
  EXPECT_EQ(torch.world, 4);
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).source, "Open MPI");
  EXPECT_EQ(read({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}).source, "PMI");
  EXPECT_EQ(read({{"SLURM_PROCID", "2"},
                  {"SLURM_NTASKS", "4"},
                  {"SLURM_STEP_ID", "0"},
                  {"SLURM_STEP_NODELIST", "n[1-2]"}})
                .source,
            "SLURM");
}

TEST(LaunchEnvironment, PrefersTfConfig) {
  const auto found =
      read({{"TF_CONFIG", cluster(R"("worker":["a:1","b:2"])", R"({"type":"worker","index":1})")},
            {"RANK", "1"},
            {"WORLD_SIZE", "2"}});
  EXPECT_EQ(found.source, "TF_CONFIG");
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.world, 2);
}

TEST(LaunchEnvironment, CountsChiefBeforeWorkersBeforeServers) {
  const std::string roles = R"("worker":["w:1","w:2"],"ps":["p:1"],"chief":["c:1"])";
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"chief","index":0})")).rank, 0);
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"worker","index":1})")).rank, 2);
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"ps","index":0})")).rank, 3);
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"ps","index":0})")).world, 4);
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"evaluator","index":0})")).world, 4);
}

TEST(LaunchEnvironment, ReadsASparseMapByItsKeys) {
  const std::string roles = R"("worker":{"0":"h:1","3":"h:2"})";
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"worker","index":3})")).rank, 1);
  EXPECT_EQ(parse_tf_config(cluster(roles, R"({"type":"worker","index":3})")).world, 2);
  expect_refused({{"TF_CONFIG", cluster(roles, R"({"type":"worker","index":1})")}},
                 {"task.index is 1", "0, 3"});
  expect_refused({{"TF_CONFIG", cluster(R"("worker":{"first":"h:1"})")}}, {"'first'"});
}

struct Malformed {
  std::string text;
  std::vector<std::string> words;
};

class BadTfConfig : public testing::TestWithParam<Malformed> {};

TEST_P(BadTfConfig, IsRefusedEvenWhereAStrategySpansWorkers) {
  auto words = GetParam().words;
  words.emplace_back("TF_CONFIG");
  expect_refused({{"TF_CONFIG", GetParam().text}}, words, true);
  expect_refused({{"TF_CONFIG", GetParam().text}}, words, false);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadTfConfig,
    testing::Values(
        Malformed{"", {"empty"}}, Malformed{"  ", {"empty"}},
        Malformed{"{\"cluster\":", {"JSON", "character"}},
        Malformed{"{'cluster': {}}", {"JSON", "character 2"}}, Malformed{"[]", {"array"}},
        Malformed{"3", {"number"}}, Malformed{"{}", {"'cluster'", "no keys"}},
        Malformed{R"({"worker_hosts":["a:1"],"task":{}})", {"'cluster'", "'worker_hosts'"}},
        Malformed{R"({"cluster":["a:1"],"task":{}})", {"'cluster'", "array"}},
        Malformed{R"({"cluster":{"worker":["a:1"]}})", {"'task'"}},
        Malformed{cluster("", "{}"), {"names no task"}},
        Malformed{cluster(R"("worker":[])"), {"names no task"}},
        Malformed{cluster(R"("workers":["a:1"])"), {"'workers'", "did you mean 'worker'"}},
        Malformed{cluster(R"("worker":"a:1")"), {"cluster.worker", "string"}},
        Malformed{cluster(R"("worker":[7])"), {"worker 0", "number"}},
        Malformed{cluster(R"("worker":["a:1"])", "[]"), {"'task'", "array"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"index":0})"), {"'task.type'"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"worker"})"), {"'task.index'"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":7,"index":0})"), {"task.type"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"wroker","index":0})"), {"'wroker'", "'worker'"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"chief","index":0})"),
                  {"'chief'", "no such role"}},
        Malformed{cluster(R"("worker":["a:1","b:1"])", R"({"type":"worker","index":2})"),
                  {"task.index is 2", "0, 1"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"worker","index":-1})"), {"task.index is -1"}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"worker","index":"0"})"),
                  {"task.index", "\"0\""}},
        Malformed{cluster(R"("worker":["a:1"])", R"({"type":"worker","index":0.5})"), {"task.index", "0.5"}},
        Malformed{cluster(R"("worker":["a:1","a:1"])"), {"worker 0 and worker 1", "'a:1'"}},
        Malformed{cluster(R"("chief":["a:1"],"worker":["a:1"])"), {"chief 0 and worker 0"}},
        Malformed{cluster(R"("worker":["localhost:0000"])"), {"worker 0", "'localhost:0000'", "1 to 65535"}},
        Malformed{cluster(R"("worker":["a:65536"])"), {"'a:65536'"}},
        Malformed{cluster(R"("worker":["a"])"), {"'a'", "no port"}},
        Malformed{cluster(R"("worker":["a:"])"), {"not a number"}},
        Malformed{cluster(R"("worker":["a:x"])"), {"not a number"}},
        Malformed{cluster(R"("worker":[":1"])"), {"no host"}},
        Malformed{cluster(R"("worker":[""])"), {"no port"}},
        Malformed{cluster(R"("worker":["http://a:1"])"), {"'http://a:1'", "URL"}},
        Malformed{cluster(R"("worker":["::1:80"])"), {"brackets"}},
        Malformed{cluster(R"("worker":["a b:1"])"), {"not a name"}}));

TEST(LaunchEnvironment, TakesASingleWorkerUnderAOneMachineStrategy) {
  EXPECT_EQ(read({{"TF_CONFIG", cluster(R"("worker":["a:1"])")}}, false).source, "TF_CONFIG");
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, false).source, "torchrun");
}

TEST(LaunchEnvironment, RefusesSeveralWorkersUnderAOneMachineStrategy) {
  expect_refused({{"TF_CONFIG", cluster(R"("worker":["a:1","b:1"])")}},
                 {"TF_CONFIG", "2 workers", "one machine"}, false);
  expect_refused({{"RANK", "0"}, {"WORLD_SIZE", "4"}}, {"torchrun", "WORLD_SIZE=4"}, false);
  expect_refused({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, {"Open MPI"}, false);
}

TEST(LaunchEnvironment, RefusesSourcesThatDisagree) {
  expect_refused(
      {{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}},
      {"torchrun", "Open MPI", "rank 0 of 2", "rank 0 of 4"}, false);
  expect_refused({{"TF_CONFIG", cluster(R"("worker":["a:1","b:1"])")}, {"RANK", "1"}, {"WORLD_SIZE", "2"}},
                 {"TF_CONFIG", "torchrun"});
}

TEST(LaunchEnvironment, RefusesImpossibleRanks) {
  expect_refused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK=2", "WORLD_SIZE=2"});
  expect_refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE=0"});
  expect_refused({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK", "'-1'"});
  expect_refused({{"RANK", "0"}, {"WORLD_SIZE", "two"}}, {"WORLD_SIZE", "'two'"});
  expect_refused({{"RANK", "0"}, {"WORLD_SIZE", ""}}, {"WORLD_SIZE", "''"});
  expect_refused({{"WORLD_SIZE", "2"}}, {"WORLD_SIZE is set", "RANK is not"});
}

TEST(LaunchEnvironment, IgnoresASlurmAllocationWithoutAStep) {
  for (const auto& variables :
       {Variables{{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}},
        Variables{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}}}) {
    const auto found = read(variables, false);
    EXPECT_EQ(found.source, "none");
    EXPECT_EQ(found.world, 1);
    EXPECT_THAT(found.notes, ElementsAre(HasSubstr("single process")));
  }
}

TEST(LaunchEnvironment, TakesProcessesStartedInsideSlurmTasks) {
  const Variables nested{
      {"RANK", "5"},         {"WORLD_SIZE", "8"},   {"MASTER_ADDR", "a"},  {"MASTER_PORT", "29500"},
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(read(nested).source, "torchrun");
  Variables elsewhere = nested;
  elsewhere["SLURM_PROCID"] = "0";
  expect_refused(elsewhere, {"torchrun", "SLURM"});
}

TEST(RecordedEnvironment, TakesOnlyWhatItsListAllows) {
  const char* const variables[] = {"HOME=/root",
                                   "MY_TOKEN=s3cr3t",
                                   "AWS_SECRET_ACCESS_KEY=s3cr3t",
                                   "OMP_NUM_THREADS=2",
                                   "CUDA_VISIBLE_DEVICES=",
                                   "DTRAIN_API_TOKEN=s3cr3t",
                                   "NCCL_PASSWORD=s3cr3t",
                                   "dtrain_x=1",
                                   "SLURM_JOB_ID=7",
                                   "SLURM_JOB_USER=me",
                                   "NOEQUALS",
                                   nullptr};
  EXPECT_THAT(
      recorded_environment(variables),
      ElementsAre(Pair("CUDA_VISIBLE_DEVICES", ""), Pair("OMP_NUM_THREADS", "2"), Pair("SLURM_JOB_ID", "7")));
}

TEST(RecordedEnvironment, BoundsValues) {
  const std::string variable = "NCCL_DEBUG=" + std::string(5000, 'x');
  const char* const variables[] = {variable.c_str(), nullptr};
  EXPECT_EQ(recorded_environment(variables).at(0).second.size(), 200U);
}

}  // namespace
}  // namespace dtrain::config
