#include "history/tables.hpp"

#include <algorithm>

#include "report/format.hpp"

namespace dtrain::history {

namespace {

constexpr const char* nothing = "-";
constexpr std::size_t longest_commit = 20;

std::string signed_percent(double share) { return fmt::format("{:+.1f} %", share * 100.0); }

std::string counted(std::size_t n, const char* noun) {
  return report::count(static_cast<std::int64_t>(n), noun);
}

const Change* change_at(const Series& series, std::size_t point) {
  const auto found = std::ranges::find(series.changes, point, &Change::first);
  return found == series.changes.end() ? nullptr : &*found;
}

std::vector<std::string> row_of(const Series& series, std::size_t index) {
  const Point& point = series.points[index];
  const Change* change = change_at(series, index);
  return {title_of(series),
          date_of(point.created),
          report::shorten(point.commit, longest_commit),
          report::rate(point.images_per_second),
          point.normalised ? report::rate(point.normalised->median) : nothing,
          point.efficiency ? report::percent_of_one(*point.efficiency) : nothing,
          point.stable ? "yes" : "NO",
          change == nullptr ? "" : change_text(*change)};
}

std::string commit_and_date(const Point& point) {
  return fmt::format("{} ({})", report::shorten(point.commit, longest_commit), date_of(point.created));
}

std::string change_line(const Series& series, const Change& change) {
  const std::string measured =
      series.judged_normalised
          ? fmt::format("at the machine's reference speed, {} as measured", signed_percent(change.raw_share))
          : "as measured";
  return fmt::format("{}: {} images/s {}, between {} and {}", title_of(series), change_text(change), measured,
                     commit_and_date(series.points[change.first - 1]),
                     commit_and_date(series.points[change.first]));
}

}  // namespace

std::string headline(const History& history) {
  std::size_t series = 0;
  for (const auto& machine : history.machines) series += machine.series.size();
  return fmt::format("{}, {} on {}", counted(history.results, "result"), counted(series, "configuration"),
                     counted(history.machines.size(), "machine"));
}

std::string title_of(const Machine& machine) {
  std::string title = "History on " + machine.cpu;
  for (const auto& device : machine.devices) title += ", " + device;
  return fmt::format("{} ({})", title, machine.key.empty() ? "no machine key" : machine.key);
}

std::string title_of(const Series& series) {
  return series.tool == "dtrain" ? series.label : fmt::format("{}: {}", series.tool, series.label);
}

std::string date_of(const std::string& created) {
  std::string date = report::shorten(created.substr(0, 16), 16);
  if (date.size() == 16 && date[10] == 'T') date[10] = ' ';
  return date;
}

std::string change_text(const Change& change) {
  return fmt::format("{} [{:+.1f}, {:+.1f}]", signed_percent(change.share), change.low * 100.0,
                     change.high * 100.0);
}

report::Table points_table(const Machine& machine, std::size_t most) {
  report::Table table{
      .title = title_of(machine),
      .caption =
          "images/s and efficiency: median and 95 % interval over the result's rounds. At reference "
          "speed: x the time of the calibration kernel / its median over the series. Change: the level "
          "from here on against the one before, with 95 % interval.",
      .columns = {{"configuration"},
                  {"measured (UTC)"},
                  {"commit"},
                  {"images/s", true},
                  {"at reference speed", true},
                  {"efficiency", true},
                  {"stable"},
                  {"change"}},
      .rows = {}};
  bool cut = false;
  for (const auto& series : machine.series) {
    const std::size_t n = series.points.size();
    cut = cut || n > most;
    for (std::size_t i = n - std::min(n, most); i < n; ++i) table.rows.push_back(row_of(series, i));
  }
  if (cut) table.caption += fmt::format(" The last {} results of each.", most);
  return table;
}

std::vector<std::string> change_lines(const Machine& machine) {
  std::vector<std::string> lines;
  for (const auto& series : machine.series) {
    for (const auto& change : series.changes) lines.push_back(change_line(series, change));
  }
  for (const auto& series : machine.series) {
    if (!series.remark.empty()) lines.push_back(title_of(series) + ": " + series.remark);
  }
  return lines;
}

}  // namespace dtrain::history
