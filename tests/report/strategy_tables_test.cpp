#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "report/tables.hpp"
#include "report/writer.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// mirrored at N = 4 and, with the same images a step, a pipeline that says something of itself.
Result side_by_side_result() {
  Result result = scaling_result();
  auto& runs = result.samples.runs;
  runs.push_back(runs.back());
  result.summary.runs.push_back(result.summary.runs.back());
  measure::RunSamples& pipeline = runs.back();
  pipeline.plan.id = "pipeline-4";
  pipeline.plan.strategy = "pipeline";
  pipeline.replica_bytes = 2 << 20;
  pipeline.losses.assign(12, 1.5);
  pipeline.facts = {{"bubble_share", 0.125, "share", "idle by theory"},
                    {"stage_bytes", 3.0 * (1 << 20), "bytes", "activations"},
                    {"stages", 4, "count", "devices a pipeline spans"}};
  pipeline.rank_memory = {
      {.allocated = 10, .peak = 11, .weights = 1, .gradients = 2, .optimizer = 3, .activations = 4},
      {.allocated = 20, .peak = 21, .weights = 5, .gradients = 6, .optimizer = 7, .activations = 8}};
  return result;
}

Result reread(const Result& result) {
  const fs::path file = fs::temp_directory_path() / fmt::format("dtrain-facts-{}.json", ::getpid());
  std::ofstream(file, std::ios::binary) << to_json(result);
  Result read = read_result(file);
  fs::remove(file);
  return read;
}

TEST(StrategyTables, StandSideBySideAfterEqualImages) {
  const Table table = choice_table(side_by_side_result());
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0][0], "mirrored");
  EXPECT_EQ(table.rows[1][0], "pipeline");
  EXPECT_EQ(table.rows[1][4], "2.0 MiB");
  EXPECT_EQ(table.rows[1].back(), "1.5000 at step 12");
  EXPECT_THAT(table.rows[0].back(), HasSubstr("at step 12"));
  EXPECT_THAT(choice_table(scaling_result()).rows, IsEmpty());
}

TEST(StrategyTables, TellFactsInTheirUnits) {
  const Table table = fact_table(side_by_side_result());
  EXPECT_THAT(table.rows, ElementsAre(ElementsAre("pipeline-4", "bubble share", "12.5 %", "idle by theory"),
                                      ElementsAre("pipeline-4", "stage bytes", "3.0 MiB", "activations"),
                                      ElementsAre("pipeline-4", "stages", "4", "devices a pipeline spans")));
  EXPECT_THAT(fact_table(scaling_result()).rows, IsEmpty());
}

TEST(StrategyTables, GiveARowARank) {
  const Table table = memory_table(side_by_side_result());
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_THAT(table.rows[1], ElementsAre("pipeline-4", "rank 1", "5 B", "6 B", "7 B", "8 B", "20 B", "21 B"));
  EXPECT_THAT(memory_table(scaling_result()).rows, IsEmpty());
}

TEST(StrategyTables, AreInEveryReport) {
  const Result result = side_by_side_result();
  for (const char* format : {"console", "markdown", "html"}) {
    const std::string text = writers().at(format).value->render(result);
    EXPECT_THAT(text, HasSubstr("Strategies side by side")) << format;
    EXPECT_THAT(text, HasSubstr("bubble share")) << format;
    EXPECT_THAT(text, HasSubstr("Memory by rank")) << format;
    EXPECT_THAT(writers().at(format).value->render(scaling_result()),
                Not(HasSubstr("Strategies side by side")))
        << format;
  }
}

TEST(StrategyTables, SurviveTheFile) {
  const Result read = reread(side_by_side_result());
  const measure::RunSamples& run = read.samples.runs.back();
  ASSERT_EQ(run.facts.size(), 3U);
  EXPECT_EQ(run.facts[0].name, "bubble_share");
  EXPECT_EQ(run.facts[0].value, 0.125);
  EXPECT_EQ(run.facts[0].unit, "share");
  EXPECT_EQ(run.facts[0].meaning, "idle by theory");
  ASSERT_EQ(run.rank_memory.size(), 2U);
  EXPECT_EQ(run.rank_memory[1].optimizer, 7U);
  EXPECT_EQ(run.rank_memory[1].peak, 21U);
}

TEST(FusedSteps, ShowInputAndTheProgramAlone) {
  Result result = scaling_result();
  measure::RunSamples& run = result.samples.runs.back();
  for (auto& round : run.rounds) {
    round.ranks.resize(1);
    round.ranks[0] = {.input = 0.001, .fused = 0.02, .host = 0.0005};
  }
  const Table table = phase_table(reread(result));
  EXPECT_EQ(table.columns[3].head, "fused");
  EXPECT_THAT(table.rows.back(),
              ElementsAre(run.plan.id, "rank 0", "1.00", "20.0", "-", "-", "-", "-", "-", "0.500", "-", "-"));
  EXPECT_EQ(table.rows.front()[3], "-");
  for (const auto& column : phase_table(scaling_result()).columns) EXPECT_NE(column.head, "fused");
}

}  // namespace
}  // namespace dtrain::report
