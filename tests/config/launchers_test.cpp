#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/launch_environment.hpp"
#include "config/launchers.hpp"
#include "config/slurm.hpp"
#include "expect_error.hpp"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Variables = std::map<std::string, std::string>;

LaunchEnvironment read(const Variables& variables, const ClusterFlags& flags = {}) {
  const EnvironmentLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  return read_launch_environment(lookup, flags);
}

void expect_refused(const Variables& variables, const ClusterFlags& flags,
                    const std::vector<std::string>& words) {
  expect_error([&] { read(variables, flags); }, ErrorCategory::usage, words);
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

ClusterFlags launcher(const std::string& name) {
  ClusterFlags flags;
  flags.launcher = name;
  return flags;
}

ClusterFlags hosts(std::vector<std::string> workers, std::vector<std::string> servers,
                   const std::string& type, std::optional<int> index) {
  ClusterFlags flags;
  flags.worker_hosts = std::move(workers);
  flags.ps_hosts = std::move(servers);
  flags.task_type = type;
  flags.task_index = index;
  return flags;
}

const Variables torchrun{{"RANK", "1"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "10.0.0.1"},
                         {"MASTER_PORT", "29500"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"PMIX_RANK", "1"},
                       {"OMPI_MCA_ess_base_jobid", "758579201"}};
const Variables srun{{"SLURM_JOB_ID", "7"},
                     {"SLURM_STEP_ID", "1"},
                     {"SLURM_PROCID", "2"},
                     {"SLURM_NTASKS", "3"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                     {"SLURM_STEP_NODELIST", "node[09-10]"}};

const char* const cluster_of_four =
    R"({"cluster":{"chief":["c:1"],"worker":["w:1","w:2"],"ps":["p:1"]},"task":{"type":"worker","index":1}})";

TEST(Launchers, TfConfigListsTheTasksByRank) {
  const auto found = read({{"TF_CONFIG", cluster_of_four}});
  ASSERT_THAT(found.tasks, SizeIs(4));
  EXPECT_EQ(found.tasks[0].role, "chief");
  EXPECT_EQ(found.tasks[2].role, "worker");
  EXPECT_EQ(found.tasks[2].index, 1);
  EXPECT_EQ(found.tasks[2].address, "w:2");
  EXPECT_EQ(found.tasks[3].role, "ps");
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.rendezvous, "c:1");
  EXPECT_EQ(found.workers(), 3);
  EXPECT_EQ(found.servers(), 1);
  EXPECT_FALSE(found.evaluator);
}

TEST(Launchers, AnEvaluatorIsNoTask) {
  const auto found =
      read({{"TF_CONFIG", R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"evaluator","index":0}})"}});
  EXPECT_TRUE(found.evaluator);
  EXPECT_THAT(found.tasks, SizeIs(2));
}

TEST(Launchers, RefusesClustersThatNobodyCanTrainIn) {
  const auto refuse = [](const std::string& text, const std::vector<std::string>& words) {
    expect_refused({{"TF_CONFIG", text}}, {}, words);
  };
  refuse(R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0}})", {"no worker"});
  refuse(R"({"cluster":{"chief":["a:1","b:1"]},"task":{"type":"chief","index":0}})", {"2 chiefs"});
  refuse(R"({"cluster":{"worker":["a:1"],"worker":["b:1"]},"task":{"type":"worker","index":0}})",
         {"'worker' is there twice"});
  refuse(R"({"cluster":{"worker":{"0":"a:1","00":"b:1"}},"task":{"type":"worker","index":0}})",
         {"worker 0 is listed twice"});
  refuse(R"({"clusters":{"worker":["a:1"]},"task":{"type":"worker","index":0}})", {"did you mean 'cluster'"});
  refuse(R"({"cluster":{"worker_hosts":["a:1"]},"task":{"type":"worker","index":0}})",
         {"did you mean 'worker'"});
  refuse(R"({"cluster":{"ps_hosts":["a:1"]},"task":{"type":"worker","index":0}})", {"did you mean 'ps'"});
}

TEST(Launchers, TorchrunTellsItsRendezvousAndLocalRanks) {
  const auto found = read(torchrun);
  EXPECT_EQ(found.rendezvous, "10.0.0.1:29500");
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_world, 2);
  EXPECT_THAT(found.tasks, SizeIs(4));
  EXPECT_EQ(found.workers(), 4);
  EXPECT_EQ(found.tasks[3].address, "");
}

TEST(Launchers, TorchrunsAgentKeepsItsPort) {
  const auto found = read(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(found.rendezvous, "10.0.0.1:29501");
  EXPECT_THAT(found.notes, testing::Contains(HasSubstr("agent listens at 10.0.0.1:29500")));
  EXPECT_EQ(read(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).rendezvous, "10.0.0.1:29500");
}

TEST(Launchers, RefusesHalfAnAddress) {
  Variables half = torchrun;
  half.erase("MASTER_PORT");
  expect_refused(half, {}, {"MASTER_ADDR is set", "MASTER_PORT is not"});
  expect_refused(with(torchrun, {{"MASTER_PORT", "0"}}), {}, {"MASTER_PORT=0", "1 to 65535"});
  half.erase("MASTER_ADDR");
  expect_refused(half, {}, {"nothing says where rank 0 is", "--rendezvous"});
  ClusterFlags flags;
  flags.rendezvous = "h:5";
  EXPECT_EQ(read(half, flags).rendezvous, "h:5");
  flags.rendezvous = "h";
  expect_refused(half, flags, {"--rendezvous h", "no port"});
}

TEST(Launchers, RefusesImpossibleLocalRanks) {
  expect_refused(with(torchrun, {{"LOCAL_RANK", "2"}}), {}, {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"});
  expect_refused(with(torchrun, {{"LOCAL_RANK", "x"}}), {}, {"LOCAL_RANK", "'x'"});
}

TEST(Launchers, MpiOnOneHostFindsAPortOfItsOwn) {
  const auto found = read(mpirun);
  EXPECT_EQ(found.source, "Open MPI");
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.rendezvous, fmt::format("127.0.0.1:{}", derived_port("758579201")));
  EXPECT_NE(found.rendezvous, read(with(mpirun, {{"OMPI_MCA_ess_base_jobid", "758579202"}})).rendezvous);
  const auto master = with(mpirun, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}});
  EXPECT_EQ(read(master).rendezvous, "h:5");
}

TEST(Launchers, MpiOnSeveralHostsTellsItItself) {
  EXPECT_EQ(read(with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}))
                .rendezvous,
            "");
  const auto pmi =
      read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  EXPECT_EQ(pmi.rendezvous, "");
  EXPECT_EQ(pmi.local_world, 1);
}

TEST(Launchers, DerivedPortsStayInTheirRange) {
  for (int job = 0; job < 1000; ++job) {
    const int port = derived_port(std::to_string(job));
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 30000);
  }
}

TEST(Launchers, SlurmsFirstNodeIsTheChief) {
  const auto found = read(srun);
  EXPECT_EQ(found.source, "SLURM");
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.local_rank, 0);
  EXPECT_EQ(found.local_world, 1);
  EXPECT_EQ(found.rendezvous, fmt::format("node09:{}", derived_port("7.1")));
  EXPECT_EQ(read(with(srun, {{"SLURM_STEP_RESV_PORTS", "12000-12003"}})).rendezvous, "node09:12000");
  EXPECT_EQ(read(with(srun, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})).rendezvous, "h:5");
  const auto here = read(with(
      srun, {{"SLURM_STEP_NODELIST", "node09"}, {"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_NODEID", "0"}}));
  EXPECT_EQ(here.rendezvous, fmt::format("127.0.0.1:{}", derived_port("7.1")));
  EXPECT_EQ(here.local_world, 3);
  expect_refused(with(srun, {{"SLURM_STEP_NODELIST", "node[1-"}}), {}, {"'node[1-'"});
}

TEST(Launchers, ExpandsWhatSlurmAbbreviates) {
  EXPECT_THAT(expand_nodes("a"), ElementsAre("a"));
  EXPECT_THAT(expand_nodes("node[01-03,7],gpu1,x[10]"),
              ElementsAre("node01", "node02", "node03", "node7", "gpu1", "x10"));
  EXPECT_THAT(expand_nodes("n[098-102]"), ElementsAre("n098", "n099", "n100", "n101", "n102"));
  EXPECT_THAT(expand_nodes("n[1-4294967295]", 2), ElementsAre("n1", "n2"));
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* list : {"", "[", "n[", "n[]", "n[2-1]", "n[a]", "n[1]x", ",a"}) {
    expect_error([&] { expand_nodes(list); }, ErrorCategory::usage, {"SLURM"});
  }
  for (const char* list : {"", "x", "2(x", "2(x9999999)"}) {
    expect_error([&] { expand_counts(list); }, ErrorCategory::usage, {"SLURM"});
  }
}

TEST(Launchers, MpirunInsideSlurmWorksWhereTheyAgree) {
  const auto found = read(with(mpirun, {{"SLURM_JOB_ID", "7"},
                                        {"SLURM_STEP_ID", "0"},
                                        {"SLURM_PROCID", "1"},
                                        {"SLURM_NTASKS", "2"},
                                        {"SLURM_STEP_NODELIST", "n[1-2]"}}));
  EXPECT_EQ(found.source, "Open MPI");
  EXPECT_EQ(found.rank, 1);
  const auto daemon_a_node = read(with(
      mpirun, {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));
  EXPECT_EQ(daemon_a_node.source, "Open MPI");
  EXPECT_EQ(daemon_a_node.world, 2);
}

TEST(Launchers, ALauncherThatIsChosenCounts) {
  const auto both = with(torchrun, mpirun);
  expect_refused(both, {}, {"torchrun", "Open MPI", "--launcher"});
  EXPECT_EQ(read(both, launcher("openmpi")).world, 2);
  EXPECT_EQ(read(both, launcher("torchrun")).world, 4);
  EXPECT_TRUE(read(both, launcher("none")).alone());
  expect_refused(both, launcher("slurm"), {"--launcher slurm", "SLURM_PROCID"});
  expect_refused(both, launcher("tf_config"), {"TF_CONFIG"});
  expect_refused(both, launcher("torchrum"), {"'torchrum'", "did you mean 'torchrun'"});
}

TEST(Launchers, AMalformedSourceThatIsNotChosenDoesNotCount) {
  EXPECT_EQ(read(with(torchrun, {{"TF_CONFIG", "{"}}), launcher("torchrun")).world, 4);
}

TEST(Launchers, FlagsComeFirst) {
  const auto flags = hosts({"a:1", "b:1"}, {"p:1"}, "ps", 0);
  const auto found = read({}, flags);
  EXPECT_EQ(found.source, "flags");
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.servers(), 1);
  EXPECT_EQ(found.rendezvous, "a:1");
  expect_refused(torchrun, flags, {"flags", "torchrun", "rank 2 of 3", "rank 1 of 4"});
}

TEST(Launchers, RefusesFlagsThatSayTooLittle) {
  expect_refused({}, hosts({"a:1", "b:1"}, {}, "", std::nullopt), {"--task-index"});
  expect_refused({}, hosts({"a:1", "b:1"}, {}, "worker", 2), {"is 2", "0, 1"});
  expect_refused({}, hosts({}, {"p:1"}, "ps", 0), {"--worker-hosts"});
  expect_refused({}, hosts({}, {}, "", 1), {"--worker-hosts"});
  expect_refused({}, hosts({"a:1", "a:1"}, {}, "worker", 0), {"worker 0 and worker 1", "'a:1'"});
  expect_refused({}, hosts({"a:1"}, {"a:1"}, "worker", 0), {"ps 0", "worker 0", "'a:1'"});
  expect_refused({}, hosts({"a"}, {}, "worker", 0), {"worker 0", "no port"});
  expect_refused({}, hosts({"a:1", "b:1"}, {}, "chief", 0), {"worker 0 leads"});
  expect_refused({}, hosts({"a:1", "b:1"}, {}, "wroker", 0), {"'wroker'", "did you mean 'worker'"});
  EXPECT_EQ(read({}, hosts({"a:1"}, {}, "", std::nullopt)).world, 1);
}

TEST(Launchers, ARendezvousNeedsSomebodyToMeet) {
  ClusterFlags flags;
  flags.rendezvous = "h:5";
  expect_refused({}, flags, {"--rendezvous h:5", "nothing says which rank"});
  expect_refused({{"TF_CONFIG", cluster_of_four}}, flags, {"h:5", "c:1"});
}

TEST(Launchers, NeverMakesOneProcessOfManyWithoutAWord) {
  expect_refused({{"PMIX_RANK", "1"}}, {}, {"PMIX_RANK=1", "one of several"});
}

}  // namespace
}  // namespace dtrain::config
