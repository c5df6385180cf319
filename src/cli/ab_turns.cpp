#include "cli/ab_turns.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/text.hpp"
#include "launch/arguments.hpp"
#include "launch/capture.hpp"

namespace dtrain::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kept_losses = 10;
constexpr std::size_t shown_lines = 6;

bool can_run(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
}

bool typed(const std::vector<std::string>& command, const std::string& flag) {
  return launch::last_value(command, flag).has_value();
}

std::vector<std::string> full_command(const Contender& contender, const fs::path& folder) {
  std::vector<std::string> words = contender.command;
  if (!typed(words, "--rounds")) words = launch::with_value(words, "--rounds", ab_rounds);
  if (!typed(words, "--min-time") && !typed(words, "--steps")) {
    words = launch::with_value(words, "--min-time", ab_min_time);
  }
  if (!typed(words, "--warmup")) words = launch::with_value(words, "--warmup", ab_warmup);
  if (!contender.bases) words.emplace_back("--no-bases");
  words = launch::with_value(words, "--out", folder.string());
  words = launch::with_value(words, "--format", "json");
  words.emplace_back("--quiet");
  words.insert(words.begin(), "dtrain");
  return words;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

// The end of what it wrote, warnings about the machine left out.
std::string last_words(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto& line : split(text, '\n')) {
    if (!line.empty() && !line.starts_with("warning: ")) lines.push_back(line);
  }
  if (lines.size() > shown_lines) lines.erase(lines.begin(), lines.end() - shown_lines);
  return join(lines, " | ");
}

void require_success(const Contender& contender, const launch::Captured& captured, Deadline deadline) {
  const std::string who = fmt::format("{} ({})", contender.name, contender.program.string());
  if (captured.timed_out) {
    throw run_error(fmt::format("{} did not end within {}", who, format_duration(deadline.allowed().count())),
                    "measure less in one run (fewer --rounds, a shorter --min-time), or raise --run-timeout");
  }
  if (captured.ending.signal == 0 && captured.ending.code == 0) return;
  const std::string what =
      fmt::format("{} {}: {}", who, captured.ending.describe(), last_words(captured.error));
  const std::string advice = "run it by itself to see what is wrong: nothing can be compared with it";
  switch (static_cast<ExitCode>(captured.ending.code)) {
    case ExitCode::usage:
      throw usage_error(what, advice);
    case ExitCode::environment:
      throw environment_error(what, advice);
    case ExitCode::data:
      throw data_error(what, advice);
    default:
      throw run_error(what, advice);
  }
}

// Hundreds of results are held at once.
void keep_what_counts(report::Result& result) {
  for (auto& run : result.samples.runs) {
    if (run.losses.size() > kept_losses) run.losses.resize(kept_losses);
    run.losses.shrink_to_fit();
    for (auto& round : run.rounds) {
      round.step_seconds.clear();
      round.step_seconds.shrink_to_fit();
    }
  }
}

}  // namespace

fs::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos || can_run(name)) {
    if (can_run(name)) return fs::absolute(name);
  } else if (const char* folders = std::getenv("PATH")) {
    for (const auto& folder : split(folders, ':')) {
      if (can_run(fs::path(folder) / name)) return fs::absolute(fs::path(folder) / name);
    }
  }
  throw environment_error(fmt::format("{}: there is no program that can be run", name),
                          "give the path of a dtrain program, such as build/release/dtrain");
}

bool knows_no_bases(const Contender& contender, launch::Signals& signals) {
  const launch::ProcessSpec spec{contender.program, {"dtrain", "bench", "--help"}, own_environment()};
  const launch::Captured captured = launch::run_captured(spec, signals, Deadline::in(Seconds{10.0}));
  return captured.out.find("--no-bases") != std::string::npos;
}

report::Result run_contender(const Contender& contender, const fs::path& folder, launch::Signals& signals,
                             Deadline deadline) {
  const launch::ProcessSpec spec{contender.program, full_command(contender, folder), own_environment()};
  const launch::Captured captured = launch::run_captured(spec, signals, deadline);
  if (captured.interrupted_by != 0) throw Interrupted();
  require_success(contender, captured, deadline);
  const fs::path file = folder / "result.json";
  if (!fs::exists(file)) {
    throw run_error(fmt::format("{} ({}) left no result", contender.name, contender.program.string()),
                    "the command behind -- has to be one that measures: bench, without --dry-run");
  }
  report::Result result = report::read_result(file);
  keep_what_counts(result);
  return result;
}

}  // namespace dtrain::cli
