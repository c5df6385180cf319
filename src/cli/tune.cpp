#include "cli/tune.hpp"

#include <unistd.h>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/delivery.hpp"
#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "cli/tune_trials.hpp"

namespace dtrain::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* candidates_key = "tune/candidates";
constexpr const char* winner_key = "tune/winner";

std::string flags_or_default(const std::string& flags) {
  return flags.empty() ? "the flags as given" : flags;
}

// "+3.1 % [+1.2 %, +4.8 %]"
std::string gain_text(const stats::Interval& gain) {
  return fmt::format("{:+.1f} % [{:+.1f} %, {:+.1f} %]", 100.0 * gain.median, 100.0 * gain.low,
                     100.0 * gain.high);
}

std::string outcome_line(const std::vector<TuneCandidate>& candidates, const tune::Outcome& outcome) {
  const auto flags = [&](int candidate) { return candidates[static_cast<std::size_t>(candidate)].flags; };
  if (outcome.winner != tune::default_candidate) {
    return fmt::format("{}: {} images/s", flags(outcome.winner), gain_text(outcome.gain));
  }
  if (outcome.pairs.empty()) return fmt::format("the flags as given stay: {}", outcome.why);
  return fmt::format("the flags as given stay: {} ({}: {} images/s)", outcome.why, flags(outcome.rival),
                     gain_text(outcome.gain));
}

}  // namespace

void declare_tune_flag(Flags& flags, config::Options& options) {
  flags.group("Measuring");
  flags.value("--tune", "TIME",
              "First search that long for faster flags: bucket size, overlap, all-reduce algorithm, threads "
              "and prefetch, as far as they were not given",
              [&options](const std::string& text) { options.tune = config::parse_duration(text, "--tune"); });
}

Tuning::Tuning(Session session, const std::set<std::string>& given) : opened_(std::move(session)) {
  if (!asked()) return;
  for (const char* flag :
       {"--bucket-mb", "--overlap", "--allreduce", "--threads-per-replica", "--prefetch"}) {
    if (given.contains(flag)) held_.insert(flag);
  }
  candidates_ = tune_candidates(opened_, held_);
  if (candidates_.size() > 1) return;
  throw usage_error(
      fmt::format("--tune has nothing to choose from: {}",
                  held_.empty() ? "no flag that it sets means anything to this run"
                                : "no flag that it sets means anything to this run but what was given, " +
                                      join(std::vector<std::string>(held_.begin(), held_.end()), ", ")),
      "leave some of these flags to the search, or leave --tune out");
}

const Session& Tuning::session() const { return chosen_ ? *chosen_ : opened_; }

const Session& Tuning::session_of(const std::string& run) {
  if (!asked()) return opened_;
  const auto candidate = candidate_of_run(run);
  if (candidate) return candidate_session(*candidate);
  if (!chosen_) choose(std::stoi(ask_chief(winner_key)));
  return *chosen_;
}

const Session& Tuning::candidate_session(int candidate) {
  const auto [entry, added] = measured_.try_emplace(candidate);
  if (!added) return entry->second;
  if (opened_.job.follows() && ask_chief(candidates_key) != all_flags()) {
    throw usage_error("--tune chooses from other flags here than on the chief",
                      "start all processes with the same flags");
  }
  Session session = with_candidate(opened_, candidates_.at(static_cast<std::size_t>(candidate)));
  config::RunPlan run = session.plan.runs.back();
  run.id = tune_run_id(candidate);
  session.plan.runs = {std::move(run)};
  return entry->second = std::move(session);
}

bool Tuning::search(const std::string& command_line, const train::MakeWorld& make,
                    const std::atomic<bool>& stop) {
  if (!asked()) return true;
  require_writable_directory(opened_.options.out);
  tell_others(candidates_key, all_flags());
  try {
    const tune::Outcome outcome = find_winner(make, stop);
    choose(outcome.winner);
    tell_others(winner_key, std::to_string(outcome.winner));
    keep(outcome, command_line);
    show(outcome);
  } catch (const Interrupted&) {
    log_warning("interrupted while searching for flags: nothing was chosen or measured");
    return false;
  }
  return true;
}

tune::Outcome Tuning::find_winner(const train::MakeWorld& make, const std::atomic<bool>& stop) {
  const auto make_subject = [&](int candidate) {
    const config::RunPlan& plan = candidate_session(candidate).plan.runs.front();
    return TuneTrials::Subject{plan, std::make_unique<train::World>(make(plan.id))};
  };
  TuneTrials trials(opened_.options, candidates_, make_subject, stop);
  const int available = static_cast<int>(std::ssize(candidates_)) - 1;
  return tune::search(available, *opened_.options.tune, trials);
}

void Tuning::keep(const tune::Outcome& outcome, const std::string& command_line) {
  const config::Options& options = opened_.options;
  const fs::path log = fs::path(options.out) / "tuning.json";
  const TuneRequest request{.command = command_line,
                            .run = opened_.plan.runs.back().id,
                            .budget_seconds = options.tune->count(),
                            .seed = options.seed,
                            .held = held_};
  write_atomically(log, tuning_log(request, candidates_, outcome));
  note_ = fmt::format("--tune: {}; {} stretches of {} candidates in {}, all in {}",
                      outcome_line(candidates_, outcome), outcome.stretches, outcome.schedule.candidates,
                      format_duration(outcome.seconds), log.string());
}

void Tuning::show(const tune::Outcome& outcome) const {
  if (!is_asked(opened_.options, "console")) return;
  print_out(fmt::format("tuned in {} with {} stretches of {} candidates ({}/tuning.json)\n  {}\n\n",
                        format_duration(outcome.seconds), outcome.stretches, outcome.schedule.candidates,
                        opened_.options.out, outcome_line(candidates_, outcome)));
}

std::string Tuning::describe() const {
  if (!asked()) return {};
  std::string text =
      fmt::format("\nbefore that, --tune searches for {:g} s among {} candidates at {}, in this order:\n",
                  opened_.options.tune->count(), candidates_.size() - 1, opened_.plan.runs.back().id);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    text += fmt::format("  {:>5}  {}\n", i, flags_or_default(candidates_[i].flags));
  }
  return text;
}

std::string Tuning::note() const { return note_; }

std::string Tuning::all_flags() const {
  std::string all;
  for (const auto& candidate : candidates_) all += candidate.flags + "\n";
  return all;
}

void Tuning::tell_others(const std::string& key, const std::string& value) const {
  if (!opened_.job.alone()) opened_.job.member->set(key, value);
}

std::string Tuning::ask_chief(const std::string& key) const {
  return opened_.job.member->get(key, Deadline::in(opened_.options.timeout));
}

void Tuning::choose(int winner) {
  chosen_ = with_candidate(opened_, candidates_.at(static_cast<std::size_t>(winner)));
}

}  // namespace dtrain::cli
