#include "history/tables.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "history/judge.hpp"
#include "report/format.hpp"

namespace dtrain::history {

namespace {

constexpr const char* nothing = "-";
constexpr std::size_t longest_commit = 18;

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
  return {date_of(point.created),
          report::shorten(point.commit, longest_commit),
          report::rate(point.images_per_second),
          point.normalised ? report::rate(point.normalised->median) : nothing,
          point.efficiency ? report::percent(point.efficiency->median * 100.0) : nothing,
          point.stable ? "yes" : "NO",
          change == nullptr ? "" : change_text(*change)};
}

std::vector<report::Table::Column> point_columns() {
  return {{"measured (UTC)"},   {"commit"}, {"images/s [95 %]", true}, {"normalised", true},
          {"efficiency", true}, {"steady"}, {"change [95 %]"}};
}

void add_rows(const Series& series, std::size_t most, std::vector<std::vector<std::string>>& rows) {
  const std::size_t n = series.points.size();
  for (std::size_t i = n - std::min(n, most); i < n; ++i) rows.push_back(row_of(series, i));
}

std::string commit_and_date(const Point& point) {
  return fmt::format("{} ({})", report::shorten(point.commit, longest_commit), date_of(point.created));
}

std::string how_measured(const Series& series, const Change& change) {
  if (series.judged_normalised)
    return fmt::format("at the machine's reference speed ({} as measured)", signed_percent(change.raw_share));
  if (!change.machine_share) return "as measured";
  return fmt::format("as measured (the machine's own speed changed by {} there)",
                     signed_percent(*change.machine_share));
}

std::string change_line(const Series& series, const Change& change) {
  return fmt::format("{}: {} images/s {}, between {} and {}", title_of(series), change_text(change),
                     how_measured(series, change), commit_and_date(series.points[change.first - 1]),
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

bool changes_at(const Series& series, std::size_t point) { return change_at(series, point) != nullptr; }

std::string points_caption(std::size_t most) {
  std::string text =
      "images/s: median over the result's rounds [95 % interval]. Normalised: x the time of the calibration "
      "kernel / its median over the configuration's results. Change: the level from here on against the one "
      "before [95 % interval].";
  if (most != all_points) text += fmt::format(" No more than the last {} results of each are shown.", most);
  return text;
}

report::Table points_table(const Series& series, std::size_t most) {
  report::Table table{.title = title_of(series), .caption = "", .columns = point_columns(), .rows = {}};
  add_rows(series, most, table.rows);
  table.columns.pop_back();
  for (auto& row : table.rows) row.pop_back();
  return table;
}

report::Table points_table(const Machine& machine, std::size_t most) {
  report::Table table{.title = title_of(machine),
                      .caption = points_caption(most),
                      .columns = {{"configuration"}},
                      .rows = {}};
  for (const auto& column : point_columns()) table.columns.push_back(column);
  for (const auto& series : machine.series) {
    std::vector<std::vector<std::string>> rows;
    add_rows(series, most, rows);
    for (auto& row : rows) {
      row.insert(row.begin(), title_of(series));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::vector<std::string> change_lines(const Machine& machine) {
  std::vector<std::string> lines;
  std::vector<std::string> unchanged;
  std::size_t too_short = 0;
  for (const auto& series : machine.series) {
    for (const auto& change : series.changes) lines.push_back(change_line(series, change));
  }
  for (const auto& series : machine.series) {
    if (!series.changes.empty()) continue;
    if (series.points.size() < enough_results) {
      ++too_short;
    } else if (series.remark == no_change) {
      unchanged.push_back(title_of(series));
    } else {
      lines.push_back(title_of(series) + ": " + series.remark);
    }
  }
  if (!unchanged.empty()) lines.push_back(fmt::format("no change: {}", join(unchanged, "; ")));
  if (too_short > 0) {
    lines.push_back(
        fmt::format("{} with fewer than the {} results of equal work that it takes to look for a change",
                    counted(too_short, "configuration"), enough_results));
  }
  return lines;
}

}  // namespace dtrain::history
