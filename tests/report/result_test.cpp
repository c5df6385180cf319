#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "report/result.hpp"
#include "result_file.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// Writing is injective on what it writes, so that equal texts mean equal results.
void expect_same(const Result& a, const Result& b) {
  const std::string left = to_json(a);
  const std::string right = to_json(b);
  const auto differs = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  const auto at = static_cast<std::size_t>(differs.first - left.begin());
  EXPECT_TRUE(left == right) << "at " << at << ": " << left.substr(at, 80) << "\ninstead of\n"
                             << right.substr(at, 80);
}

TEST_F(ResultFile, ReadsBackWhatWasWritten) {
  for (const auto& result :
       {scaling_result(), one_point_result(), empty_result(), simulated_result(), hostile_result()}) {
    expect_same(reread(result), result);
  }
}

TEST_F(ResultFile, ReadsEveryFieldIntoItsPlace) {
  const Result r = reread(scaling_result());
  EXPECT_EQ(r.build.commit, "0123456789ab");
  EXPECT_EQ(r.machine.memory, std::size_t{16} << 30);
  EXPECT_EQ(r.options.device, "auto");
  EXPECT_EQ(r.device, "cpu");
  EXPECT_EQ(r.options.replicas, std::vector{4});
  EXPECT_FALSE(r.options.replicas_swept);
  EXPECT_EQ(r.options.batch_size, 64);
  EXPECT_EQ(r.options.global_batch, std::nullopt);
  EXPECT_EQ(r.options.scaling, config::Scaling::weak);
  EXPECT_EQ(r.model.parameters, 122570U);
  ASSERT_EQ(r.samples.runs.size(), 4U);
  EXPECT_EQ(r.samples.runs[0].plan.base, config::RunPlan::Base::plain);
  EXPECT_EQ(r.samples.runs[1].plan.base, config::RunPlan::Base::strategy);
  const auto& run = r.samples.runs[3];
  EXPECT_EQ(run.plan.base, config::RunPlan::Base::none);
  EXPECT_EQ(run.plan.cores, (std::vector<std::vector<int>>{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(run.measured_steps, 160U);
  const Result source = scaling_result();
  const auto& wanted = source.samples.runs[3];
  EXPECT_EQ(run.losses, wanted.losses);
  EXPECT_EQ(run.rounds[2].step_seconds, wanted.rounds[2].step_seconds);
  EXPECT_EQ(run.rounds[2].ranks[1].input, wanted.rounds[2].ranks[1].input);
  EXPECT_EQ(run.rounds[2].seconds, wanted.rounds[2].seconds);
  EXPECT_EQ(run.evaluations[1].accuracy, 0.6604);
  EXPECT_EQ(run.noise.foreign_load, 0.04);
  const auto& summary = r.summary.runs[3];
  EXPECT_EQ(summary.efficiency->median, 0.822);
  EXPECT_EQ(summary.straggler->rank, 1);
  EXPECT_EQ(summary.straggler->phase, config::Phase::input);
  EXPECT_EQ(summary.budget->parts[2].name, "stragglers");
  EXPECT_FALSE(r.summary.runs[2].steadiness.stable);
  EXPECT_TRUE(r.samples.complete);
  EXPECT_FALSE(reread(empty_result()).samples.complete);
}

TEST_F(ResultFile, KeepsSweepsAndDelaysAndOptions) {
  Result r = scaling_result();
  r.options.replicas = {1, 2, 4};
  r.options.replicas_swept = true;
  r.options.injected_delays = {{.rank = 1, .phase = config::Phase::backward, .milliseconds = 0.1}};
  r.options.precision = config::Precision::bf16;
  r.options.last_batch = config::LastBatch::keep;
  r.options.min_time = Seconds{0.1};
  r.options.seed = std::numeric_limits<std::uint64_t>::max();
  r.options.memory_limit = 200'000'000;
  r.options.steps = 20;
  r.options.allocator = config::Allocator::async;
  r.options.memory_growth = true;
  r.options.cuda_graphs = false;
  const Result again = reread(r);
  expect_same(again, r);
  EXPECT_EQ(again.options.replicas, (std::vector{1, 2, 4}));
  EXPECT_TRUE(again.options.replicas_swept);
  EXPECT_EQ(again.options.injected_delays[0].phase, config::Phase::backward);
  EXPECT_EQ(again.options.allocator, config::Allocator::async);
  EXPECT_TRUE(again.options.memory_growth);
  EXPECT_FALSE(again.options.cuda_graphs);
  EXPECT_EQ(again.options.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(again.options.min_time, Seconds{0.1});
  r.options.replicas.clear();
  r.options.replicas_swept = false;
  EXPECT_TRUE(reread(r).options.replicas.empty());
}

TEST_F(ResultFile, KeepsWhatDevicesDid) {
  Result r = scaling_result();
  auto& run = r.samples.runs[3];
  run.plan.devices = {0, 1, 2, 3};
  run.rounds[0].wall_seconds = 1.25;
  config::DeviceCondition gpu;
  gpu.device = 2;
  gpu.clock_mhz = 1410;
  gpu.highest_clock_mhz = 1980;
  gpu.slowed_by = {"heat"};
  gpu.other_processes = 1;
  gpu.other_bytes = 7;
  run.noise.devices = {gpu};
  const auto again = reread(r).samples.runs[3];
  EXPECT_EQ(again.plan.devices, run.plan.devices);
  EXPECT_EQ(again.rounds[0].wall_seconds, 1.25);
  EXPECT_EQ(again.replica_peak_bytes, run.replica_peak_bytes);
  ASSERT_EQ(again.noise.devices.size(), 1U);
  EXPECT_EQ(again.noise.devices[0].device, 2);
  EXPECT_EQ(again.noise.devices[0].clock_mhz, 1410);
  EXPECT_EQ(again.noise.devices[0].slowed_by, gpu.slowed_by);
  EXPECT_EQ(again.noise.devices[0].other_bytes, 7U);
}

// Any bits that make a finite number come back as the same bits.
TEST_F(ResultFile, KeepsFullPrecisionOfAnyNumber) {
  Random random(1);
  Result r = one_point_result();
  auto& losses = r.samples.runs[0].losses;
  losses = {0.1, 1.0 / 3.0, 5e-324, std::numeric_limits<double>::max(), -0.0};
  while (losses.size() < 2000) {
    const double value = std::bit_cast<double>(random.next());
    if (std::isfinite(value)) losses.push_back(value);
  }
  const auto again = reread(r).samples.runs[0].losses;
  ASSERT_EQ(again.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(again[i]), std::bit_cast<std::uint64_t>(losses[i])) << losses[i];
  }
}

struct Number {
  const char* key;  // as a JSON pointer
  double& (*in)(Result&);
  bool sample = false;  // must be finite to be read
};

stats::RunSummary& summary(Result& r) { return r.summary.runs[3]; }
measure::RunSamples& run(Result& r) { return r.samples.runs[3]; }

const Number numbers[] = {
    {"/model/training_flops_per_image",
     [](Result& r) -> double& { return r.model.training_flops_per_image; }},
    {"/model/peak_flops_per_replica", [](Result& r) -> double& { return r.model.peak_flops_per_replica; }},
    {"/model/training_bytes_per_image",
     [](Result& r) -> double& { return r.model.training_bytes_per_image; }},
    {"/model/update_bytes", [](Result& r) -> double& { return r.model.update_bytes; }},
    {"/model/peak_bytes_per_replica", [](Result& r) -> double& { return r.model.peak_bytes_per_replica; }},
    {"/config/lr", [](Result& r) -> double& { return r.options.learning_rate; }},
    {"/config/momentum", [](Result& r) -> double& { return r.options.momentum; }},
    {"/config/weight_decay", [](Result& r) -> double& { return r.options.weight_decay; }},
    {"/config/warmup_epochs", [](Result& r) -> double& { return r.options.warmup_epochs; }},
    {"/config/bucket_mb", [](Result& r) -> double& { return r.options.bucket_mb; }},
    {"/config/inject_delay/0/ms",
     [](Result& r) -> double& { return r.options.injected_delays[0].milliseconds; }},
    {"/runs/3/images_per_second/median",
     [](Result& r) -> double& { return summary(r).images_per_second.median; }},
    {"/runs/3/images_per_second/low", [](Result& r) -> double& { return summary(r).images_per_second.low; }},
    {"/runs/3/images_per_second/high",
     [](Result& r) -> double& { return summary(r).images_per_second.high; }},
    {"/runs/3/step_ms/p50", [](Result& r) -> double& { return summary(r).step_seconds.p50; }},
    {"/runs/3/step_ms/p95", [](Result& r) -> double& { return summary(r).step_seconds.p95; }},
    {"/runs/3/step_ms/p99", [](Result& r) -> double& { return summary(r).step_seconds.p99; }},
    {"/runs/3/mean_step_seconds/median",
     [](Result& r) -> double& { return summary(r).mean_step_seconds.median; }},
    {"/runs/3/speedup", [](Result& r) -> double& { return summary(r).speedup->median; }},
    {"/runs/3/speedup_low", [](Result& r) -> double& { return summary(r).speedup->low; }},
    {"/runs/3/efficiency", [](Result& r) -> double& { return summary(r).efficiency->median; }},
    {"/runs/3/efficiency_low", [](Result& r) -> double& { return summary(r).efficiency->low; }},
    {"/runs/3/efficiency_high", [](Result& r) -> double& { return summary(r).efficiency->high; }},
    {"/runs/3/efficiency_against_plain",
     [](Result& r) -> double& { return summary(r).efficiency_against_plain->median; }},
    {"/runs/3/budget/ideal_seconds", [](Result& r) -> double& { return summary(r).budget->ideal_seconds; }},
    {"/runs/3/budget/measured_seconds",
     [](Result& r) -> double& { return summary(r).budget->measured_seconds; }},
    {"/runs/3/budget/useful_percent", [](Result& r) -> double& { return summary(r).budget->useful_percent; }},
    {"/runs/3/budget/parts/1/seconds",
     [](Result& r) -> double& { return summary(r).budget->parts[1].seconds; }},
    {"/runs/3/budget/parts/1/percent",
     [](Result& r) -> double& { return summary(r).budget->parts[1].percent; }},
    {"/runs/3/budget/straggler/last_share",
     [](Result& r) -> double& { return summary(r).straggler->last_share; }},
    {"/runs/3/budget/straggler/seconds_late",
     [](Result& r) -> double& { return summary(r).straggler->seconds_late; }},
    {"/runs/3/measuring_share", [](Result& r) -> double& { return summary(r).measuring_share; }},
    {"/runs/3/model_flops_per_second",
     [](Result& r) -> double& { return summary(r).model_flops_per_second; }},
    {"/runs/3/peak_share", [](Result& r) -> double& { return *summary(r).peak_share; }},
    {"/runs/3/model_bytes_per_second",
     [](Result& r) -> double& { return summary(r).model_bytes_per_second; }},
    {"/runs/3/bandwidth_share", [](Result& r) -> double& { return *summary(r).bandwidth_share; }},
    {"/runs/3/noise/foreign_load_cores", [](Result& r) -> double& { return run(r).noise.foreign_load; }},
    {"/runs/3/noise/stolen_cores", [](Result& r) -> double& { return run(r).noise.stolen; }},
    {"/runs/3/noise/throttled_seconds", [](Result& r) -> double& { return run(r).noise.throttled_seconds; }},
    {"/runs/3/noise/calibration_spread",
     [](Result& r) -> double& { return run(r).noise.calibration_spread; }},
    {"/runs/3/stamp_seconds", [](Result& r) -> double& { return run(r).stamp_seconds; }},
    {"/runs/3/evaluations/0/loss", [](Result& r) -> double& { return run(r).evaluations[0].loss; }},
    {"/runs/3/evaluations/0/accuracy", [](Result& r) -> double& { return run(r).evaluations[0].accuracy; }},
    {"/runs/3/evaluations/0/seconds", [](Result& r) -> double& { return run(r).evaluations[0].seconds; },
     true},
    {"/runs/3/rounds/1/seconds", [](Result& r) -> double& { return run(r).rounds[1].seconds; }, true},
    {"/runs/3/rounds/1/calibration_seconds",
     [](Result& r) -> double& { return run(r).rounds[1].calibration_seconds; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/input",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].input; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/forward",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].forward; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/backward",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].backward; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/communication",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].communication; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/update",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].update; }, true},
    {"/runs/3/rounds/1/ranks/2/phases/host",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].host; }},
    {"/runs/3/rounds/1/ranks/2/straggler_wait_seconds",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].straggler_wait; }, true},
    {"/runs/3/rounds/1/ranks/2/last_arrivals_share",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].last_arrivals; }, true},
    {"/runs/3/rounds/1/ranks/2/lateness_seconds",
     [](Result& r) -> double& { return run(r).rounds[1].ranks[2].lateness; }},
};

TEST_F(ResultFile, WritesNullAndWhyForEveryNumberThatIsNotFinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Result small = scaling_result();
  small.options.injected_delays.resize(1);
  for (auto& measured : small.samples.runs) {
    measured.losses.clear();
    measured.rounds.resize(2);
  }
  for (const auto& number : numbers) {
    for (const auto& [value, why] : {std::pair(std::nan(""), "not a number"), std::pair(infinity, "infinite"),
                                     std::pair(-infinity, "minus infinite")}) {
      SCOPED_TRACE(fmt::format("{} {}", number.key, value));
      Result r = small;
      number.in(r) = value;
      const std::string text = to_json(r);
      const json root = json::parse(text);
      EXPECT_TRUE(root.at(json::json_pointer(number.key)).is_null());
      EXPECT_EQ(root.at(json::json_pointer(std::string(number.key) + "_reason")), why);
      if (number.sample) {
        EXPECT_THAT(refusal(text), HasSubstr("is null"));
        continue;
      }
      Result again = read_text(text);
      expect_same(again, r);
      EXPECT_EQ(fmt::format("{}", number.in(again)), fmt::format("{}", value));
    }
  }
}

TEST_F(ResultFile, KeepsTheRestOfLossesBesideOneThatIsNotFinite) {
  Result r = one_point_result();
  r.samples.runs[0].losses = {1.5, std::nan(""), 0.5};
  const json written = json::parse(to_json(r))["runs"][0];
  EXPECT_EQ(written["losses"], json::parse("[1.5, null, 0.5]"));
  EXPECT_EQ(written["losses_reason"], "null where not finite: 1 of 3");
  const auto losses = reread(r).samples.runs[0].losses;
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_EQ(losses[2], 0.5);
}

TEST_F(ResultFile, SaysWhyThereIsNoEfficiencyOrBudget) {
  const json runs = json::parse(to_json(simulated_result()))["runs"];
  EXPECT_TRUE(runs[1]["efficiency"].is_null());
  EXPECT_EQ(runs[1]["efficiency_reason"], "2 replicas share 1 core");
  EXPECT_TRUE(runs[0]["budget"].is_null());
  EXPECT_EQ(runs[0]["budget_reason"], "a base loses nothing against itself");
}

TEST_F(ResultFile, NamesRanksAndPhasesInWords) {
  const json run = json::parse(to_json(scaling_result()))["runs"][3];
  EXPECT_EQ(run["budget"]["straggler"]["rank"], "rank 1");
  EXPECT_EQ(run["budget"]["straggler"]["phase"], "input");
  EXPECT_EQ(run["rounds"][0]["ranks"][2]["name"], "rank 2");
}

TEST_F(ResultFile, MergesWarningsWithoutRepeats) {
  Result r = scaling_result();
  r.summary.warnings = {"one more", r.warnings[0]};
  EXPECT_EQ(all_warnings(r), (std::vector<std::string>{r.warnings[0], "one more"}));
  EXPECT_EQ(reread(r).warnings, all_warnings(r));
}

TEST_F(ResultFile, WritesBytesThatAreNotUtf8AsReplacements) {
  Result r = one_point_result();
  r.dataset.name = "bad\xff\xc3";
  EXPECT_EQ(json::parse(to_json(r))["dataset"]["name"], "bad\ufffd\ufffd");
}

TEST_F(ResultFile, TakesAFolderForItsResultJson) {
  save(to_json(one_point_result()));
  expect_same(read_result(folder_), one_point_result());
}

TEST_F(ResultFile, IgnoresKeysItDoesNotKnow) {
  auto root = nlohmann::ordered_json::parse(to_json(one_point_result()));
  root["later"] = 1;
  root["runs"][0]["later"] = {{"x", nullptr}};
  expect_same(read_text(root.dump()), one_point_result());
}

TEST_F(ResultFile, ReadsAFileOfSamplesAlone) {
  json root = json::parse(to_json(scaling_result()));
  for (auto& run : root["runs"]) {
    for (const char* key : {"images_per_second", "step_ms", "mean_step_seconds", "speedup", "efficiency",
                            "budget", "stable", "memory", "noise", "notes", "peak_share"}) {
      run.erase(key);
    }
  }
  const Result r = read_text(root.dump());
  EXPECT_EQ(r.samples.runs[3].rounds.size(), 5U);
  EXPECT_EQ(r.summary.runs[3].efficiency, std::nullopt);
}

class ResultSchema : public ResultFile {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import jsonschema' >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "python3 with the package jsonschema is not installed";
    }
  }
  bool fits(const std::vector<std::string>& texts) const {
    std::string command = "python3 -W ignore -m jsonschema";
    for (std::size_t i = 0; i < texts.size(); ++i) {
      save(texts[i], fmt::format("{}.json", i));
      command += fmt::format(" -i '{}/{}.json'", folder_.string(), i);
    }
    return std::system(fmt::format("{} '{}/schema.json' 2>&1", command, DTRAIN_RESULTS).c_str()) == 0;
  }
};

TEST_F(ResultSchema, HoldsForEveryResult) {
  Result odd = scaling_result();
  odd.options.injected_delays.resize(1);
  odd.summary.runs[0].measuring_share = std::nan("");
  odd.options.replicas = {1, 2};
  odd.options.replicas_swept = true;
  EXPECT_TRUE(fits({to_json(scaling_result()), to_json(one_point_result()), to_json(empty_result()),
                    to_json(simulated_result()), to_json(hostile_result()), to_json(odd)}));
}

TEST_F(ResultSchema, RefusesAnEfficiencyOfASimulatedRun) {
  json root = json::parse(to_json(simulated_result()));
  root["runs"][1]["efficiency"] = 0.9;
  EXPECT_FALSE(fits({root.dump()}));
}

}  // namespace
}  // namespace dtrain::report
