#include "cli/tune_trials.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/log.hpp"

namespace dtrain::cli {

namespace {

constexpr std::string_view run_prefix = "tune-";
constexpr double stretches_in_budget = 400.0;
constexpr double shortest_stretch = 0.02;
constexpr double longest_stretch = 0.5;

// Short stretches, and many of them: rounds are what tells candidates apart.
measure::ProtocolConfig protocol_for(Seconds budget) {
  const double stretch = std::clamp(budget.count() / stretches_in_budget, shortest_stretch, longest_stretch);
  return {.rounds = 1,
          .warmup_steps = std::nullopt,
          .steps = std::nullopt,
          .min_time = Seconds{stretch},
          .steady = {.window = 5, .tolerance = 0.1, .limit = Seconds{stretch}}};
}

}  // namespace

std::string tune_run_id(int candidate) { return fmt::format("{}{}", run_prefix, candidate); }

std::optional<int> candidate_of_run(const std::string& run) {
  if (!run.starts_with(run_prefix)) return std::nullopt;
  int candidate = 0;
  const auto [end, error] =
      std::from_chars(run.data() + run_prefix.size(), run.data() + run.size(), candidate);
  if (error != std::errc() || end != run.data() + run.size()) return std::nullopt;
  return candidate;
}

TuneTrials::TuneTrials(const config::Options& options, const std::vector<TuneCandidate>& candidates,
                       MakeSubject make, const std::atomic<bool>& stop)
    : budget_(options.tune.value()),
      protocol_(protocol_for(budget_)),
      candidates_(&candidates),
      make_(std::move(make)),
      stop_(&stop),
      progress_(options.quiet) {}

double TuneTrials::measure(int candidate) {
  progress_.show("searching for flags", static_cast<std::size_t>(elapsed()),
                 static_cast<std::size_t>(budget_.count()), "s");
  Subject subject = make_(candidate);
  const measure::SubjectMaker hand_over = [&](const config::RunPlan&) { return std::move(subject.world); };
  const measure::Samples samples = measure::measure({subject.plan}, hand_over, protocol_, *this, *stop_);
  const measure::RunSamples& run = samples.runs.front();
  if (!samples.complete && run.failure.empty()) throw Interrupted();
  if (!samples.complete) throw JobEnded(run.failure, "start the job again");
  if (!run.failure.empty()) throw run_error(run.failure, "");
  const measure::RoundSample& round = run.rounds.front();
  return static_cast<double>(round.images) / round.seconds;
}

double TuneTrials::elapsed() const { return seconds(Clock::now() - begin_); }

void TuneTrials::rung_ended(const tune::Rung& rung) {
  const auto others = std::span(rung.standings).subspan(1);
  const auto best = std::ranges::max_element(
      others, {}, [](const tune::Standing& standing) { return standing.kept ? standing.gain : -1.0; });
  const auto kept = std::ranges::count_if(others, [](const auto& standing) { return standing.kept; });
  progress_.clear();
  log_info(fmt::format("tune: {} candidates, {} rounds: {} stay, the best with {} ({:+.1f} %)", others.size(),
                       rung.rounds, kept, (*candidates_)[static_cast<std::size_t>(best->candidate)].flags,
                       100.0 * best->gain));
}

}  // namespace dtrain::cli
