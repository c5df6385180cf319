#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "report/console.hpp"
#include "report/console_text.hpp"
#include "report/format.hpp"
#include "report/tables.hpp"
#include "report/writer.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string render(const char* format, const Result& result) {
  return writers().at(format).value->render(result);
}

std::vector<std::string> lines_of(const std::string& text) { return split(text, '\n'); }

// The first line that holds `word`.
std::string line_with(const std::string& text, const std::string& word) {
  for (const auto& line : lines_of(text)) {
    if (line.find(word) != std::string::npos) return line;
  }
  return {};
}

TEST(Format, WritesNumbersTheSameEverywhere) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(count(122570), "122,570");
  EXPECT_EQ(count(-1234567), "-1,234,567");
  EXPECT_EQ(count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(count(1, "step"), "1 step");
  EXPECT_EQ(count(2000, "step"), "2,000 steps");
  EXPECT_EQ(rate(2031.4), "2,031");
  EXPECT_EQ(rate(45.23), "45.2");
  EXPECT_EQ(rate(999.6), "1,000");
  EXPECT_EQ(rate(99.96), "100");
  EXPECT_EQ(rate(0.0), "0.00");
  EXPECT_EQ(milliseconds(0.0123456), "12.3");
  EXPECT_EQ(milliseconds(0.000123), "0.123");
  EXPECT_EQ(percent(93.44), "93.4 %");
  EXPECT_EQ(percent(-0.01), "0.0 %");
  EXPECT_EQ(percent(-1.26), "-1.3 %");
  EXPECT_EQ(factor(1.826), "1.83x");
  EXPECT_EQ(flops(38.2e6), "38.2 MFLOP");
  EXPECT_EQ(flops(999.7e6), "1.00 GFLOP");
  EXPECT_EQ(duration(1.5), "1.50 s");
  EXPECT_EQ(duration(125), "2 min 05 s");
  EXPECT_EQ(duration(7384), "2 h 03 min");
  EXPECT_EQ(rate(stats::Interval{2031, 2010.2, 2054.8}), "2,031 [2,010, 2,055]");
  EXPECT_EQ(percent_of_one({0.934, 0.921, 0.95}), "93.4 % [92.1, 95.0]");
}

TEST(Format, NeverShowsNan) {
  const double nan = std::nan("");
  for (const auto& text : {rate(nan), milliseconds(nan), percent(nan), factor(nan), flops(nan), bytes(nan),
                           duration(nan), rate(std::numeric_limits<double>::infinity())}) {
    EXPECT_EQ(text, "n/a");
  }
}

TEST(Format, ShortensByCodePoints) {
  EXPECT_EQ(shorten("short", 10), "short");
  EXPECT_EQ(shorten("0123456789", 8), "01234...");
  EXPECT_EQ(shorten("äöüäöüäöü", 6), "äöü...");
  EXPECT_EQ(shorten("abcdef", 2), "..");
  EXPECT_EQ(columns_of("äöü"), 3U);
}

TEST(Csv, HasARowARunAndRound) {
  const Result result = scaling_result();
  const auto lines = split(render("csv", result), '\n');
  ASSERT_EQ(lines.size(), 1U + 4 * 5 + 1);
  EXPECT_EQ(lines[0],
            "run,strategy,base,replicas,simulated,stable,global_batch_images,round,images,steps,warmup_steps,"
            "seconds,"
            "images_per_second,calibration_seconds,input_ms,forward_ms,backward_ms,communication_ms,"
            "straggler_wait_ms,update_ms,host_ms\r");
  const auto cells = split(lines[1 + 3 * 5 + 2], ',');
  ASSERT_EQ(cells.size(), 21U);
  EXPECT_EQ(cells[0], "mirrored-4");
  EXPECT_EQ(cells[2], "");
  EXPECT_EQ(cells[7], "3");
  const auto& round = result.samples.runs[3].rounds[2];
  EXPECT_EQ(std::stod(cells[11]), round.seconds);
  EXPECT_EQ(std::stod(cells[12]), static_cast<double>(round.images) / round.seconds);
  EXPECT_NEAR(std::stod(cells[14]), (4 * 0.0001 + 0.004) / 4 * 1e3, 1e-12);
  EXPECT_EQ(split(lines[1], ',')[2], "plain");
}

TEST(Csv, QuotesSeparatorsAndQuotes) {
  Result result = one_point_result();
  result.samples.runs[0].plan.id = "a,\"b\"\nc";
  EXPECT_THAT(render("csv", result), HasSubstr("\r\n\"a,\"\"b\"\"\nc\",single,"));
}

TEST(Csv, HasNoRowWithoutRounds) { EXPECT_EQ(split(render("csv", empty_result()), '\n').size(), 2U); }

TEST(Markdown, ShowsTablesThatLineUp) {
  const std::string text = render("markdown", scaling_result());
  EXPECT_THAT(text, HasSubstr("**At N = 4, stragglers cost most"));
  EXPECT_EQ(line_with(text, "| mirrored-4 | 4 "),
            "| mirrored-4 | 4 | 6,627 [6,574, 6,667] | 38.5 / 40.3 / 41.5 | 3.29x | 82.2 % [81.0, 83.1] | "
            "81.8 % [80.5, 82.8] | 22.3 MiB | yes |");
  EXPECT_THAT(text, HasSubstr("| stragglers | 1.4 % | 8.6 % |"));
  EXPECT_THAT(text, HasSubstr("> Unstable: mirrored-2"));
  std::size_t columns = 0;
  for (const auto& line : lines_of(text)) {
    const auto bars = static_cast<std::size_t>(std::count(line.begin(), line.end(), '|'));
    if (line.empty() || line[0] != '|') columns = 0;
    if (bars > 0 && columns > 0) {
      EXPECT_EQ(bars, columns) << line;
    }
    columns = bars;
  }
}

TEST(Markdown, EscapesMarkup) {
  const std::string text = render("markdown", hostile_result());
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_THAT(text, Not(HasSubstr("<img")));
  EXPECT_THAT(text, HasSubstr("&#60;/script&#62;&#60;script&#62;"));
  EXPECT_THAT(text, HasSubstr("&#124;a b"));
  Result link = one_point_result();
  link.warnings = {"[x](http://example.com) *loud* `code` a_b_"};
  EXPECT_THAT(render("markdown", link),
              HasSubstr("- [x&#93;(http://example.com) &#42;loud&#42; &#96;code&#96; a&#95;b&#95;\n"));
}

TEST(Exchange, HoldsBytesAndLossesAgainstTheExactRun) {
  Result result = scaling_result();
  measure::RunSamples& last = result.samples.runs.back();  // N = 4
  measure::RunSamples exact = last;
  exact.plan.id = "mirrored-4-exact";
  exact.plan.exact = true;
  exact.losses.assign(40, 0.5);
  exact.bytes_uncompressed = exact.bytes_sent;
  last.losses.assign(30, 0.75);
  last.bytes_uncompressed = 4 * last.bytes_sent;
  last.staleness.emplace();
  last.staleness->add(1);
  last.staleness->add(2);
  last.dropped_gradients = 7;
  result.samples.runs.insert(result.samples.runs.end() - 1, exact);
  result.summary.runs.insert(result.summary.runs.end() - 1, result.summary.runs.back());
  const Table table = exchange_table(result);
  ASSERT_EQ(table.rows.size(), 3U);  // N = 2, exact, 4
  const auto& row = table.rows.back();
  EXPECT_EQ(row[0], "mirrored-4");
  EXPECT_EQ(row[2], "4.00x");
  EXPECT_EQ(row[3], "1.50, at most 2");
  EXPECT_EQ(row[4], "7");
  EXPECT_EQ(row[5], "0.7500 at step 30");
  EXPECT_EQ(row[6], "0.5000");
  EXPECT_EQ(table.rows[1][6], "-") << "nothing is held against the exact run itself";
}

TEST(Console, StatesBothBatchesAndTheKindOfScaling) {
  const std::string text = render_header(scaling_result(), {.width = 120});
  EXPECT_THAT(
      line_with(text, "  batch"),
      HasSubstr("64 images a replica, 64, 128, 256 a step over all replicas (global) at N = 1, 2, 4"));
  EXPECT_THAT(line_with(text, "  scaling"), HasSubstr("weak: the batch of a replica is held"));
  EXPECT_THAT(line_with(text, "  device"), HasSubstr("cpu: no GPU was found; 1 core a replica"));
  EXPECT_THAT(line_with(text, "  model"), HasSubstr("cnn, 122,570 parameters, 38.2 MFLOP an image"));
  EXPECT_THAT(line_with(text, "  measuring"), HasSubstr("5 rounds of at least 1 s each, all N in turns"));
  Result strong = scaling_result();
  strong.scaling = config::Scaling::strong;
  for (auto& run : strong.samples.runs) {
    run.plan.global_batch = 256;
    run.plan.replica_batch.assign(run.plan.replica_batch.size(), 256 / run.plan.replicas);
  }
  EXPECT_THAT(
      line_with(render_header(strong, {.width = 120}), "  batch"),
      HasSubstr("256, 128, 64 images a replica, 256 a step over all replicas (global) at N = 1, 2, 4"));
}

TEST(Console, ShowsTheScalingTable) {
  const std::string text = render_report(scaling_result(), {.width = 140});
  EXPECT_EQ(line_with(text, "  plain "),
            "  plain       1  2,028 [2,012, 2,040]       31.4 / 33.0 / 33.9         -                 base"
            "                  base  22.0 MiB  yes");
  EXPECT_THAT(line_with(text, "  mirrored-2 "), HasSubstr("95.7 % [94.5, 96.6]"));
  EXPECT_THAT(line_with(text, "  mirrored-2 "), HasSubstr("  NO"));
  EXPECT_THAT(text, HasSubstr("95 % bootstrap interval"));
  EXPECT_THAT(text, HasSubstr("rank 1 arrives last in 93.0 % of steps, 4.00 ms after the median rank"));
  EXPECT_THAT(text, HasSubstr("Verdict: At N = 4, stragglers cost most"));
  EXPECT_THAT(text, HasSubstr("results/run/result.json results/run/report.html"));
  EXPECT_THAT(text, HasSubstr("- mirrored-2 is unstable: other processes"));
  EXPECT_THAT(text, HasSubstr("all ranks hold the same weights in every run"));
}

TEST(Console, ContinuesWideTablesBelow) {
  for (const int width : {60, 80, 100, 140}) {
    const std::string text = render_report(scaling_result(), {.width = width});
    for (const auto& line : lines_of(text)) {
      EXPECT_LE(columns_of(line), static_cast<std::size_t>(width)) << line;
    }
    EXPECT_THAT(text, HasSubstr("82.2 % [81.0, 83.1]"));
    EXPECT_THAT(text, HasSubstr("22.3 MiB"));
  }
}

TEST(Console, NeverShowsAnEfficiencyOfASimulatedRun) {
  Result result = simulated_result();
  result.summary.runs[1].efficiency = stats::Interval{0.5, 0.5, 0.5};
  result.summary.runs[1].speedup = stats::Interval{1.0, 1.0, 1.0};
  for (const char* format : {"console", "markdown"}) {
    const std::string text = render(format, result);
    EXPECT_THAT(text, Not(HasSubstr("50.0 %"))) << format;
    EXPECT_THAT(text, Not(HasSubstr("1.00x"))) << format;
    EXPECT_THAT(text, HasSubstr("mirrored-2 (simulated)")) << format;
    EXPECT_THAT(text, HasSubstr("Simulated: mirrored-2 - 2 replicas share 1 core")) << format;
  }
}

TEST(Console, ShowsBothRooflinesAndTheDevices) {
  Result r = scaling_result();
  r.device = "cuda";
  config::DeviceCondition gpu;
  gpu.clock_mhz = 1410;
  gpu.highest_clock_mhz = 1980;
  gpu.celsius = 63;
  r.samples.runs[3].noise.devices = {gpu};
  const std::string text = render("console", r);
  const auto& s = r.summary.runs[3];
  EXPECT_THAT(text, HasSubstr("roofline"));
  EXPECT_THAT(text, HasSubstr(percent(*s.peak_share * 100) + " of the fp32 peak"));
  EXPECT_THAT(text, HasSubstr(percent(*s.bandwidth_share * 100) + " of the bandwidth"));
  EXPECT_THAT(text, HasSubstr("held from the device at most"));
  EXPECT_THAT(text, HasSubstr("GPU 0 1410 of 1980 MHz, 63 °C"));
}

TEST(Console, SaysWhyARunFailedAndGoesOn) {
  Result result = scaling_result();
  result.samples.runs[3].failure = "rank 2: loss is not finite in step 7";
  result.samples.runs[3].rounds.clear();
  const std::string text = render_report(result, {.width = 140});
  EXPECT_THAT(line_with(text, "  mirrored-4 "), HasSubstr("failed"));
  EXPECT_THAT(text, HasSubstr("- mirrored-4 failed: rank 2: loss is not finite in step 7"));
  EXPECT_THAT(line_with(text, "  mirrored-2 "), HasSubstr("95.7 %"));
}

TEST(Console, ShowsNothingStrangeWithoutSamples) {
  const std::string text = render("console", empty_result());
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, HasSubstr("not measured"));
  EXPECT_THAT(text, HasSubstr("Incomplete"));
  Result none = empty_result();
  none.samples.runs.clear();
  none.summary.runs.clear();
  for (const auto& format : writers().names()) EXPECT_FALSE(render(format.c_str(), none).empty());
}

TEST(Console, LeavesOutWhatAPeersFileDoesNotHold) {
  Result result = one_point_result();
  result.options.out.clear();
  result.model.training_flops_per_image = 0.0;
  auto& run = result.samples.runs[0];
  run.stamps_per_step = 0;
  run.replica_bytes = 0;
  run.weights_hash.clear();
  const std::string text = render("console", result);
  for (const char* word : {"FLOP", "stamp", "0 B", "  weights", "  files"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
}

TEST(Console, KeepsControlCharactersOfNamesAway) {
  const std::string text = render("console", hostile_result());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(printable("a\tb\x7f\u009bc\xc3\xa4"), "a?b??c\xc3\xa4");
}

TEST(Console, ColorsAndBlocksOnlyWhereTheTerminalHasThem) {
  const std::string plain = render_report(scaling_result(), {});
  EXPECT_TRUE(
      std::all_of(plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  const std::string color =
      render_report(scaling_result(), {.terminal = true, .color = true, .unicode = true, .width = 100});
  EXPECT_THAT(color, HasSubstr("\x1b[32m█"));
}

TEST(Console, BarsShareTheirCellsInProportion) {
  const ConsoleStyle plain;
  EXPECT_EQ(stacked_bar({50, 25, 25}, 8, plain), "####iicc");
  EXPECT_EQ(stacked_bar({100, -3, 3}, 10, plain), "##########");
  EXPECT_EQ(stacked_bar({0, 0}, 10, plain), "");
  EXPECT_EQ(stacked_bar({std::nan(""), 1}, 4, plain), "iiii");
  for (int lost = 0; lost <= 100; ++lost) {
    EXPECT_EQ(stacked_bar({100.0 - lost, lost / 3.0, lost * 2 / 3.0}, 37, plain).size(), 37U) << lost;
  }
}

TEST(Console, WrapsWithAHangingIndent) {
  EXPECT_EQ(wrap("one two three four five six seven", 4, {.width = 24}),
            "one two three four\n    five six seven");
  EXPECT_EQ(wrap("", 4, {.width = 24}), "");
  EXPECT_EQ(wrap("averyveryverylongwordthatfitsnowhere", 4, {.width = 24}),
            "averyveryverylongwordthatfitsnowhere");
}

TEST(Writers, HaveFixedFileNames) {
  std::vector<std::string> files;
  for (const auto& entry : writers().entries()) files.push_back(entry.value->file_name());
  EXPECT_EQ(files, (std::vector<std::string>{"", "result.json", "result.csv", "result.md", "report.html",
                                             "github-action-benchmark.json", "bencher.json"}));
  EXPECT_THROW(writers().at("yaml"), Error);
}

}  // namespace
}  // namespace dtrain::report
