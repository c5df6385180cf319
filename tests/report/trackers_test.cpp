#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/output_file.hpp"
#include "report/files.hpp"
#include "report/writer.hpp"
#include "report/writers.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

json bencher(const Result& result) { return json::parse(to_bencher(result)); }
json action(const Result& result) { return json::parse(to_github_action_benchmark(result)); }

std::vector<std::string> names(const json& entries) {
  std::vector<std::string> found;
  for (const auto& entry : entries) found.push_back(entry.at("name"));
  return found;
}
std::vector<std::string> keys(const json& object) {
  std::vector<std::string> found;
  for (const auto& [key, value] : object.items()) found.push_back(key);
  return found;
}

Result steady_result() {
  Result r = scaling_result();
  r.summary.runs[2].steadiness = {};
  return r;
}

TEST(ForBencher, GivesEachMeasureWithItsInterval) {
  const Result r = steady_result();
  const json all = bencher(r);
  EXPECT_THAT(keys(all),
              ElementsAre("cnn, mirrored-1, cpu, fp32, batch 64", "cnn, mirrored-2, cpu, fp32, batch 128",
                          "cnn, mirrored-4, cpu, fp32, batch 256", "cnn, plain, cpu, fp32, batch 64"));
  const json& four = all["cnn, mirrored-4, cpu, fp32, batch 256"];
  EXPECT_THAT(keys(four),
              ElementsAre("images-per-second", "scaling-efficiency-percent", "step-milliseconds"));
  const auto& rate = r.summary.runs[3].images_per_second;
  EXPECT_EQ(four["images-per-second"],
            (json{{"value", rate.median}, {"lower_value", rate.low}, {"upper_value", rate.high}}));
  EXPECT_NEAR(four["scaling-efficiency-percent"]["value"], 82.2, 1e-9);
  EXPECT_NEAR(four["scaling-efficiency-percent"]["lower_value"], 81.0, 1e-9);
  EXPECT_NEAR(four["step-milliseconds"]["value"], 37.7 * 1.024, 1e-9);
  EXPECT_FALSE(all["cnn, plain, cpu, fp32, batch 64"].contains("scaling-efficiency-percent"));
}

TEST(ForTheAction, GivesWhatIsBetterWhenBigger) {
  const Result r = steady_result();
  const json all = action(r);
  EXPECT_THAT(names(all), ElementsAre("cnn, plain, cpu, fp32, batch 64: throughput",
                                      "cnn, mirrored-1, cpu, fp32, batch 64: throughput",
                                      "cnn, mirrored-2, cpu, fp32, batch 128: throughput",
                                      "cnn, mirrored-2, cpu, fp32, batch 128: scaling efficiency",
                                      "cnn, mirrored-4, cpu, fp32, batch 256: throughput",
                                      "cnn, mirrored-4, cpu, fp32, batch 256: scaling efficiency"));
  EXPECT_EQ(all[4]["value"], r.summary.runs[3].images_per_second.median);
  EXPECT_EQ(all[4]["unit"], "images/s");
  EXPECT_EQ(all[5]["unit"], "%");
  EXPECT_EQ(all[5]["range"], "81 to 83.1");
  EXPECT_EQ(all[5]["extra"], "machine 5f0c2a91\ncommit 0123456789ab\n5 rounds, median and 95 % interval");
}

// Another policy is other work: its numbers must not continue the first one's.
TEST(ForTrackers, NamesThePolicyOfReplicas) {
  Result r = steady_result();
  r.options.accumulate = 2;
  r.options.sync_every = 8;
  r.options.updates = config::Updates::async;
  r.options.compress = "topk:0.01";
  const auto found = keys(bencher(r));
  EXPECT_EQ(found.back(), "cnn, plain, cpu, fp32, batch 64");
  EXPECT_EQ(
      found[2],
      "cnn, mirrored-4, cpu, fp32, batch 256, accumulate 2, sync every 8, asynchronous, compress topk:0.01");
}

TEST(ForTrackers, GivesWhatIsNotSteadyANameOfItsOwn) {
  EXPECT_THAT(
      keys(bencher(scaling_result())),
      ElementsAre("cnn, mirrored-1, cpu, fp32, batch 64", "cnn, mirrored-2, cpu, fp32, batch 128 (unstable)",
                  "cnn, mirrored-4, cpu, fp32, batch 256", "cnn, plain, cpu, fp32, batch 64"));
  Result cut = steady_result();
  cut.samples.complete = false;
  EXPECT_THAT(keys(bencher(cut)), Each(HasSubstr(" (incomplete)")));
}

TEST(ForTrackers, NeverCallSimulatedReplicasScaling) {
  Result r = simulated_result();
  r.summary.runs[1].efficiency = {.median = 0.5, .low = 0.4, .high = 0.6};
  EXPECT_THAT(names(action(r)), ElementsAre("cnn, mirrored-1, cpu, fp32, batch 64: throughput",
                                            "cnn, mirrored-2, cpu, fp32, batch 128 (simulated): throughput"));
  const json all = bencher(r);
  for (const auto& [name, measures] : all.items())
    EXPECT_FALSE(measures.contains("scaling-efficiency-percent")) << name;
}

TEST(ForTrackers, LeaveOutWhatIsNoNumber) {
  Result r = steady_result();
  r.samples.runs[0].failure = "lost";
  r.summary.runs[1].images_per_second.median = std::nan("");
  r.summary.runs[2].images_per_second.high = std::numeric_limits<double>::infinity();
  r.summary.runs[3].efficiency->low = std::nan("");
  r.summary.runs[3].mean_step_seconds.high = std::nan("");
  EXPECT_EQ(names(action(r)), std::vector<std::string>{"cnn, mirrored-4, cpu, fp32, batch 256: throughput"});
  const json all = bencher(r);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THAT(keys(*all.begin()), ElementsAre("images-per-second"));
  EXPECT_EQ(to_bencher(empty_result()), "{}\n");
  EXPECT_EQ(to_github_action_benchmark(empty_result()), "[]\n");
}

TEST(ForTrackers, LeaveOutRanksThatHoldDifferentWeights) {
  Result r = steady_result();
  const std::size_t all = bencher(r).size();
  r.samples.runs[3].weights_agree = false;
  EXPECT_EQ(bencher(r).size(), all - 1);
  for (const auto& name : names(action(r))) EXPECT_THAT(name, testing::Not(testing::HasSubstr("mirrored-4")));
}

TEST(ForTrackers, KeepNamesWithinBenchersLimit) {
  Result r = one_point_result();
  for (int i = 0; i < 2000; ++i) r.model.name += "ä";
  const std::string name = keys(bencher(r)).front();
  EXPECT_EQ(std::count_if(name.begin(), name.end(), [](char c) { return (c & 0xC0) != 0x80; }), 1024);
}

TEST(ForTrackers, IsWrittenOnlyWhereAskedFor) {
  EXPECT_THAT(default_formats(), Not(testing::AnyOf(testing::Contains("bencher"),
                                                    testing::Contains("github-action-benchmark"))));
  EXPECT_EQ(output_paths("out", {"bencher", "github-action-benchmark"}),
            (std::vector<fs::path>{"out/bencher.json", "out/github-action-benchmark.json"}));
}

class TrackerSchema : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import jsonschema' >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "python3 with the package jsonschema is not installed";
    fs::create_directories(folder_);
  }
  ~TrackerSchema() override { fs::remove_all(folder_); }

  bool fits(const std::string& text, const std::string& schema) const {
    write_atomically(folder_ / "file.json", text);
    return std::system(fmt::format("python3 -W ignore -m jsonschema -i '{}/file.json' '{}/schemas/{}' 2>&1",
                                   folder_.string(), DTRAIN_REPORT_TESTS, schema)
                           .c_str()) == 0;
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("dtrain-trackers-{}", ::getpid());
};

TEST_F(TrackerSchema, HoldsForEveryResult) {
  Result hostile = hostile_result();
  hostile.samples.complete = true;
  for (const auto& result : {scaling_result(), empty_result(), simulated_result(), hostile}) {
    EXPECT_TRUE(fits(to_bencher(result), "bencher.json"));
    EXPECT_TRUE(fits(to_github_action_benchmark(result), "github_action_benchmark.json"));
  }
}

TEST_F(TrackerSchema, RefusesWhatTheServicesRefuse) {
  EXPECT_FALSE(fits(R"({"a": {"images-per-second": {"value": null}}})", "bencher.json"));
  EXPECT_FALSE(fits(R"({"a": {"Images / s": {"value": 1}}})", "bencher.json"));
  EXPECT_FALSE(fits(R"([{"name": "a", "unit": "images/s", "value": "1"}])", "github_action_benchmark.json"));
  EXPECT_FALSE(fits(R"([{"name": "a", "value": 1}])", "github_action_benchmark.json"));
}

}  // namespace
}  // namespace dtrain::report
