#include "history/history.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "base/random.hpp"
#include "history/tables.hpp"
#include "history/writers.hpp"
#include "sample_results.hpp"

namespace dtrain::history {
namespace {

namespace fs = std::filesystem;
using report::Result;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The sample result, measured on that day: `level` times as fast by a machine `speed` times as fast.
Result result_of(int day, double level = 1.0, double speed = 1.0) {
  Result r = report::scaling_result();
  r.created = fmt::format("2024-05-{:02}T07:08:09Z", day);
  r.build.commit = fmt::format("commit{:02}", day);
  Random random(mix(11, static_cast<std::uint64_t>(day)));
  for (auto& run : r.samples.runs) {
    const double noise = 1.0 + 0.005 * random.normal();
    for (auto& round : run.rounds) {
      round.seconds /= level * speed * noise;
      round.calibration_seconds /= speed;
    }
  }
  return r;
}

// A peer's file, as bench/peers writes it: one run, no checksum, no calibration.
Result peer_of(const Result& ours) {
  Result r = ours;
  r.build.version = "torch 2.1.0";
  r.build.commit = "unknown";
  r.build.build_type = "";
  r.dataset.checksum = "";
  r.dataset.images = 2048;
  r.samples.runs.resize(1);
  r.samples.runs[0].plan.id = "torch-tuned-single-1";
  r.samples.runs[0].losses = {2.31, 2.30, 2.28};
  for (auto& round : r.samples.runs[0].rounds) round.calibration_seconds = 0.0;
  return r;
}

History history_of(const std::vector<Result>& results) {
  Collection collection;
  for (const auto& result : results)
    collection.sources.push_back({fmt::format("{}.json", collection.sources.size()), result});
  return make_history(std::move(collection));
}

std::vector<std::string> labels(const Machine& machine) {
  std::vector<std::string> found;
  for (const auto& series : machine.series) found.push_back(title_of(series));
  return found;
}

TEST(History, DrawsEqualWorkAsOneLine) {
  const History history = history_of({result_of(1), result_of(2), result_of(3)});
  EXPECT_EQ(history.results, 3U);
  ASSERT_EQ(history.machines.size(), 1U);
  EXPECT_EQ(history.machines[0].key, "5f0c2a91");
  EXPECT_THAT(labels(history.machines[0]), ElementsAre("plain", "mirrored-1", "mirrored-2", "mirrored-4"));
  const auto& four = history.machines[0].series[3];
  ASSERT_EQ(four.points.size(), 3U);
  EXPECT_EQ(four.points[1].commit, "commit02");
  const auto run = result_of(2).samples.runs[3];
  std::vector<double> rates;
  for (const auto& round : run.rounds) rates.push_back(static_cast<double>(round.images) / round.seconds);
  EXPECT_DOUBLE_EQ(four.points[1].images_per_second.median, stats::median(rates));
  EXPECT_FALSE(history.machines[0].series[0].points[0].efficiency);
  EXPECT_TRUE(four.points[0].efficiency);
  EXPECT_EQ(four.remark, "3 of the 6 results of equal work that it takes to look for a change");
}

TEST(History, KeepsUnequalWorkApartAndSaysWhatDiffers) {
  Result other = result_of(2);
  other.options.precision = config::Precision::bf16;
  Result batch = result_of(3);
  batch.samples.runs[0].plan.replica_batch = {32};
  const History history = history_of({result_of(1), other, batch});
  EXPECT_THAT(labels(history.machines[0]),
              ElementsAre("plain, precision fp32, batch 64", "mirrored-1, precision fp32",
                          "mirrored-2, precision fp32", "mirrored-4, precision fp32",
                          "plain, precision bf16, batch 64", "mirrored-1, precision bf16",
                          "mirrored-2, precision bf16", "mirrored-4, precision bf16",
                          "plain, precision fp32, batch 32"));
  EXPECT_EQ(history.machines[0].series[1].points.size(), 2U);
}

TEST(History, KnowsEveryTraitThatMakesWorkUnequal) {
  const auto apart = [](auto change) {
    Result other = result_of(2);
    change(other);
    const History history = history_of({result_of(1), other});
    std::size_t series = 0;
    for (const auto& machine : history.machines) series += machine.series.size();
    return series > 4U;
  };
  EXPECT_FALSE(apart([](Result&) {}));
  EXPECT_FALSE(apart([](Result& r) { r.build.commit = "other"; }));
  EXPECT_FALSE(apart([](Result& r) { r.options.rounds = 9; }));
  EXPECT_FALSE(apart([](Result& r) { r.dataset.name = "/moved/to/here"; })) << "the checksum is the same";
  EXPECT_FALSE(apart([](Result& r) { r.model.fingerprint = "00000000000000aa"; })) << "a name of the zoo";
  EXPECT_TRUE(apart([](Result& r) {
    r.options.model = "mine.toml";
    r.model.fingerprint = "00000000000000aa";
  }));
  EXPECT_TRUE(apart([](Result& r) { r.machine.key = "other"; }));
  EXPECT_TRUE(apart([](Result& r) { r.device = "cuda"; }));
  EXPECT_TRUE(apart([](Result& r) { r.model.parameters = 1; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.optimizer = "sgd"; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.accumulate = 2; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.sync_every = 4; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.updates = config::Updates::async; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.compress = "fp16"; }));
  EXPECT_TRUE(apart([](Result& r) { r.dataset.checksum = "other"; }));
  EXPECT_TRUE(apart([](Result& r) { r.samples.runs[3].plan.simulated = true; }));
  EXPECT_TRUE(apart([](Result& r) { r.samples.runs[3].plan.global_batch = 999; }));
  EXPECT_TRUE(apart([](Result& r) { r.samples.runs[3].plan.strategy = "local-sgd"; }));
  EXPECT_TRUE(apart([](Result& r) { r.options.injected_delays.resize(1); }));
  EXPECT_TRUE(apart([](Result& r) { r.build.build_type = "Debug"; }));
}

TEST(History, NamesInLabelsWhatDiffersButNotWhatFollowsFromIt) {
  Result other = result_of(2);
  other.model.name = "resnet9";
  other.model.parameters = 6573130;
  other.dataset.name = "cifar";
  other.dataset.checksum = "abc";
  other.options.injected_delays = {{.rank = 1, .phase = config::Phase::backward, .milliseconds = 8.0}};
  const History history = history_of({result_of(1), other});
  EXPECT_EQ(history.machines[0].series[3].label,
            "mirrored-4, model cnn, data synthetic, injected delay none");
  EXPECT_EQ(history.machines[0].series[7].label,
            "mirrored-4, model resnet9, data cifar, injected delay 8 ms in backward of rank 1");
}

TEST(History, GroupsByMachineTheLatestFirst) {
  Result there = result_of(5);
  there.machine.key = "other";
  there.machine.cpu = "Another CPU";
  const History history = history_of({result_of(1), there});
  ASSERT_EQ(history.machines.size(), 2U);
  EXPECT_EQ(title_of(history.machines[0]), "History on Another CPU (other)");
  EXPECT_EQ(title_of(history.machines[1]), "History on Example 9000 (5f0c2a91)");
  EXPECT_EQ(headline(history), "2 results, 8 configurations on 2 machines");
}

TEST(History, MarksWhereTheProgramChanged) {
  std::vector<Result> results;
  for (int day = 1; day <= 16; ++day) results.push_back(result_of(day, day < 9 ? 1.0 : 0.9));
  const History history = history_of(results);
  for (const auto& series : history.machines[0].series) {
    ASSERT_EQ(series.changes.size(), 1U) << series.label;
    EXPECT_EQ(series.changes[0].first, 8U);
    EXPECT_NEAR(series.changes[0].share, -0.10, 0.01);
    EXPECT_LT(series.changes[0].low, series.changes[0].share);
    EXPECT_GT(series.changes[0].high, series.changes[0].share);
    EXPECT_LT(series.changes[0].high, -0.08);
  }
  EXPECT_THAT(change_lines(history.machines[0])[3],
              AllOf(HasSubstr("mirrored-4: -"),
                    HasSubstr("between commit08 (2024-05-08 07:08) and commit09 (2024-05-09 07:08)")));
}

// The calibration kernel became slower by as much: it was the machine.
TEST(History, TellsTheMachinesChangesFromThePrograms) {
  std::vector<Result> results;
  for (int day = 1; day <= 16; ++day) results.push_back(result_of(day, 1.0, day < 9 ? 1.0 : 0.8));
  const History machine = history_of(results);
  EXPECT_TRUE(machine.machines[0].series[0].changes.empty());
  EXPECT_TRUE(machine.machines[0].series[0].judged_normalised);
  EXPECT_EQ(machine.machines[0].series[0].remark, "no change");

  for (auto& result : results) {
    for (auto& round : result.samples.runs[0].rounds) round.calibration_seconds = 0.0;
  }
  const auto raw = history_of(results).machines[0].series[0];
  EXPECT_FALSE(raw.judged_normalised);
  EXPECT_FALSE(raw.points[0].normalised);
  ASSERT_EQ(raw.changes.size(), 1U);
  EXPECT_NEAR(raw.changes[0].share, -0.2, 0.01);
}

TEST(History, ShowsWhatWasMeasuredBesideWhatIsNormalised) {
  std::vector<Result> results;
  for (int day = 1; day <= 16; ++day)
    results.push_back(result_of(day, day < 9 ? 1.0 : 1.25, day < 9 ? 1.0 : 0.8));
  const auto series = history_of(results).machines[0].series[3];
  ASSERT_EQ(series.changes.size(), 1U);
  EXPECT_NEAR(series.changes[0].share, 0.25, 0.02);
  EXPECT_NEAR(series.changes[0].raw_share, 0.0, 0.01);
  EXPECT_NEAR(*series.changes[0].machine_share, -0.2, 0.01);
}

// Calibration that is noise takes nothing out; but where it changes its level, too, that is said.
TEST(History, LeavesANoisyCalibrationOutAndSaysWhatItSaw) {
  std::vector<Result> results;
  Random random(8);
  for (int day = 1; day <= 16; ++day) {
    results.push_back(result_of(day, 1.0, day < 9 ? 1.0 : 0.8));
    const double noise = 1.0 + 0.03 * random.normal();
    for (auto& run : results.back().samples.runs) {
      for (auto& round : run.rounds) round.calibration_seconds *= noise;
    }
  }
  const auto machine = history_of(results).machines[0];
  EXPECT_FALSE(machine.series[0].judged_normalised);
  ASSERT_EQ(machine.series[0].changes.size(), 1U);
  EXPECT_NEAR(machine.series[0].changes[0].share, -0.2, 0.01);
  EXPECT_NEAR(*machine.series[0].changes[0].machine_share, -0.2, 0.04);
  EXPECT_THAT(change_lines(machine)[0], HasSubstr("as measured (the machine's own speed changed by -"));
}

TEST(History, DoesNotNormaliseGpusByACore) {
  Result r = result_of(1);
  r.device = "cuda";
  EXPECT_FALSE(history_of({r}).machines[0].series[0].points[0].normalised);
}

TEST(History, CallsADriftADrift) {
  std::vector<Result> results;
  for (int day = 1; day <= 20; ++day) results.push_back(result_of(day, 1.0 - 0.01 * day));
  const auto series = history_of(results).machines[0].series[0];
  EXPECT_THAT(series.changes, IsEmpty());
  EXPECT_THAT(series.remark, HasSubstr("no single change, but a drift of -19"));
}

TEST(History, PutsAnotherToolBesideOursOfEqualWork) {
  const History history = history_of({result_of(1), peer_of(result_of(2)), peer_of(result_of(3))});
  EXPECT_THAT(history.refused, IsEmpty());
  EXPECT_THAT(labels(history.machines[0]),
              ElementsAre("plain", "torch: torch-tuned-single-1", "mirrored-1", "mirrored-2", "mirrored-4"));
  const auto& torch = history.machines[0].series[1];
  EXPECT_EQ(torch.tool, "torch");
  ASSERT_EQ(torch.points.size(), 2U);
  EXPECT_EQ(torch.points[0].commit, "torch 2.1.0");
  EXPECT_FALSE(torch.points[0].normalised);
}

TEST(History, RefusesAnotherToolsUnequalWorkAndNamesWhatDiffers) {
  Result batch = peer_of(result_of(2));
  batch.samples.runs[0].plan.replica_batch = {128};
  batch.samples.runs[0].plan.global_batch = 128;
  batch.model.parameters = 122571;
  Result objective = peer_of(result_of(3));
  objective.samples.runs[0].losses = {0.09, 0.08};
  Result elsewhere = peer_of(result_of(4));
  elsewhere.machine.key = "";
  const History history = history_of({result_of(1), batch, objective, elsewhere});
  EXPECT_THAT(labels(history.machines[0]), ElementsAre("plain", "mirrored-1", "mirrored-2", "mirrored-4"));
  const double first = report::scaling_result().samples.runs[0].losses[0];
  EXPECT_THAT(
      history.refused,
      ElementsAre(
          "1.json (torch, torch-tuned-single-1): other work than our plain: parameters 122571 instead of "
          "122570, batch 128 instead of 64, global batch 128 instead of 64",
          fmt::format("2.json (torch, torch-tuned-single-1): other work than our plain: first loss 0.09 "
                      "instead of {:.3g}",
                      first),
          "3.json (torch, torch-tuned-single-1): nothing of ours on its machine (no key) to stand beside"));
}

TEST(History, LeavesOutWhatIsNotWholeAndSaysSo) {
  Result cut = result_of(2);
  cut.samples.complete = false;
  Result failed = result_of(3);
  failed.samples.runs[2].weights_agree = false;
  failed.samples.runs[3].failure = "rank 1 was lost";
  const History history = history_of({result_of(1), cut, failed});
  EXPECT_EQ(history.results, 2U);
  EXPECT_EQ(history.machines[0].series[3].points.size(), 1U);
  EXPECT_EQ(history.machines[0].series[2].points.size(), 1U);
  EXPECT_EQ(history.machines[0].series[1].points.size(), 2U);
  EXPECT_THAT(history.notes,
              ElementsAre("1.json: incomplete, left out",
                          "2.json: mirrored-2 ended with different weights on its ranks, left out",
                          "2.json: mirrored-4 failed: rank 1 was lost, left out"));
}

TEST(History, NeverCallsSimulatedReplicasEfficient) {
  Result r = report::simulated_result();
  const History history = history_of({r});
  ASSERT_EQ(history.machines[0].series.size(), 2U);
  EXPECT_EQ(value_of(history.machines[0].series[1].work, "simulated"), "yes");
  EXPECT_FALSE(history.machines[0].series[1].points[0].efficiency);
}

class HistoryFolder : public testing::Test {
 protected:
  ~HistoryFolder() override { fs::remove_all(folder_); }
  void save(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    write_atomically(folder_ / name, text);
  }
  Collection collected() const { return collect({folder_.string()}); }
  fs::path folder_ = fs::temp_directory_path() / fmt::format("dtrain-history-{}", ::getpid());
};

TEST_F(HistoryFolder, IsReadAtAnyDepthEachResultOnceOldestFirst) {
  save("result.json", to_json(result_of(7)));
  save("history/b.json", to_json(result_of(7)));
  save("history/a.json", to_json(result_of(9)));
  save("peers/torch/result.json", to_json(peer_of(result_of(3))));
  save("baselines/5f0c2a91.json", to_json(result_of(1)));
  const Collection found = collected();
  std::vector<std::string> files;
  for (const auto& source : found.sources) files.push_back(fs::relative(source.file, folder_));
  EXPECT_THAT(files, ElementsAre("baselines/5f0c2a91.json", "peers/torch/result.json", "result.json",
                                 "history/a.json"));
  EXPECT_THAT(found.skipped, IsEmpty());
}

TEST_F(HistoryFolder, SkipsWhatIsNoResultAndNamesIt) {
  save("result.json", to_json(result_of(1)));
  save("cut.json", to_json(result_of(2)).substr(0, 5000));
  save("package.json", "{\"name\": \"x\"}");
  save("empty.json", "");
  save("later.json", "{\"schema\": \"dtrain.result/9\"}");
  save("bencher.json", "{}");
  save("schema.json", "{\"$schema\": \"x\", \"const\": \"dtrain.result/1\"}");
  save("allreduce.json", "{\"schema\": \"dtrain.allreduce/1\"}");
  save("notes.txt", "dtrain.result/1");
  const Collection found = collected();
  EXPECT_EQ(found.sources.size(), 1U);
  EXPECT_THAT(found.skipped, ElementsAre(AllOf(HasSubstr("cut.json (is not JSON: it ends too early"),
                                               Not(HasSubstr("cut.json: "))),
                                         HasSubstr("empty.json (no result)"),
                                         AllOf(HasSubstr("later.json ("), HasSubstr("dtrain.result/9")),
                                         HasSubstr("package.json (no result)")));
  const History history = make_history(found);
  EXPECT_EQ(history.notes.size(), 1U);
}

TEST_F(HistoryFolder, NeedsAResult) {
  fs::create_directories(folder_);
  const auto refusal = [](const std::vector<std::string>& paths) {
    try {
      collect(paths);
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::data);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({folder_.string()}), HasSubstr("holds no result"));
  EXPECT_THAT(refusal({(folder_ / "none").string()}), HasSubstr("no such file"));
  save("x.json", "{}");
  EXPECT_THAT(refusal({(folder_ / "x.json").string()}), HasSubstr("x.json: schema"));
}

}  // namespace
}  // namespace dtrain::history
