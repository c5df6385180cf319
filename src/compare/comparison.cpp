#include "compare/comparison.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "compare/finding.hpp"
#include "compare/pairing.hpp"

namespace dtrain::compare {

namespace {

using report::Result;
using stats::Verdict;

void add(std::vector<Difference>& all, std::vector<Difference> more) {
  for (auto& difference : more) {
    if (std::ranges::find(all, difference.key, &Difference::key) == all.end())
      all.push_back(std::move(difference));
  }
}

std::string run_ids(const Result& result) {
  std::vector<std::string> ids;
  for (const auto& run : result.samples.runs) ids.push_back(run.plan.id);
  return join(ids, " ");
}

// Results of one side are runs of the same thing, each of them.
void check_within(const Side& side, const std::vector<Configuration>& pairs,
                  std::vector<std::size_t> Configuration::*runs, std::vector<Difference>& out) {
  const Result& first = side.results.front();
  for (std::size_t i = 1; i < side.results.size(); ++i) {
    const Result& other = side.results[i];
    auto found = differences(first, other);
    const std::string mine = run_ids(first);
    const std::string theirs = run_ids(other);
    if (mine != theirs) found.push_back({"configurations", mine, theirs});
    for (const auto& pair : pairs) {
      const auto& index = pair.*runs;
      add(found,
          run_differences(first, first.samples.runs[index.front()], other, other.samples.runs[index[i]]));
    }
    for (auto& difference : found) difference.key = fmt::format("within {}: {}", side.name, difference.key);
    add(out, std::move(found));
  }
}

void find_differences(Comparison& comparison, const std::vector<Configuration>& pairs) {
  auto& all = comparison.differences;
  const Result& base = comparison.base.results.front();
  const Result& next = comparison.next.results.front();
  add(all, differences(base, next));
  for (const auto& pair : pairs) {
    add(all, run_differences(base, base.samples.runs[pair.base.front()], next,
                             next.samples.runs[pair.next.front()]));
  }
  check_within(comparison.base, pairs, &Configuration::base, all);
  check_within(comparison.next, pairs, &Configuration::next, all);
  if (!comparison.config.deliberate) return;
  // Two command lines: whatever follows from them is what was asked; the machine is not.
  for (auto& difference : all) {
    if (difference.key != "machine.key" && !difference.key.starts_with("within ")) {
      difference.kind = Difference::Kind::configured;
    }
  }
}

bool same_measurement(const Result& a, const Result& b) {
  return a.created == b.created && a.command == b.command &&
         std::ranges::equal(a.samples.runs, b.samples.runs, [](const auto& one, const auto& other) {
           return std::ranges::equal(one.rounds, other.rounds, [](const auto& x, const auto& y) {
             return x.images == y.images && x.seconds == y.seconds;
           });
         });
}

// Copies of one result are no more evidence than one.
void drop_copies(Side& side, std::vector<std::string>& notes) {
  auto& results = side.results;
  const std::size_t before = results.size();
  for (std::size_t i = 1; i < results.size();) {
    const auto here = results.begin() + static_cast<std::ptrdiff_t>(i);
    const bool copy = std::any_of(results.begin(), here,
                                  [&](const Result& other) { return same_measurement(results[i], other); });
    if (copy) {
      results.erase(here);
      if (i < side.files.size()) side.files.erase(side.files.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (results.size() < before) {
    notes.push_back(fmt::format("{} holds {} of its results more than once: each counts once", side.name,
                                before - results.size()));
  }
}

void mention_others(const Side& side, std::vector<std::string>& notes) {
  constexpr std::size_t most_named = 3;
  const std::size_t count = side.passed_by.size();
  if (count == 0) return;
  const auto last = side.passed_by.begin() + static_cast<std::ptrdiff_t>(std::min(count, most_named));
  notes.push_back(fmt::format("{}: no result, and passed by: {}{}", side.name,
                              join(std::vector<std::string>(side.passed_by.begin(), last), ", "),
                              count > most_named ? fmt::format(" and {} more", count - most_named) : ""));
}

std::string incomplete(const Side& side) {
  for (std::size_t i = 0; i < side.results.size(); ++i) {
    const std::string& name = i < side.files.size() ? side.files[i] : side.name;
    if (!side.results[i].samples.complete) {
      return fmt::format("{} is incomplete: its measurement was cut short", name);
    }
    if (side.results[i].samples.runs.empty()) return fmt::format("{} holds no run", name);
  }
  return "";
}

// In the metric's own direction.
void turn(Finding& finding) {
  const stats::Judgement& judged = finding.judgement;
  finding.change = judged.change;
  finding.low = judged.low;
  finding.high = judged.high;
  if (finding.more_is_better) return;
  const auto inverse = [](double share) { return share > -1.0 ? 1.0 / (1.0 + share) - 1.0 : INFINITY; };
  finding.change = inverse(judged.change);
  finding.low = inverse(judged.high);
  finding.high = inverse(judged.low);
}

std::string verdict_arithmetic(const Finding& finding, const stats::GateConfig& gate, std::size_t questions) {
  const stats::Judgement& judged = finding.judgement;
  return fmt::format(
      "limit {:.2f} %: chance of such evidence if {} was lost {:.2g}, {:.2g} after Holm's correction "
      "for {} "
      "question{}, asked: below {:.4g}; the interval [{:+.2f} %, {:+.2f} %] has to lie above {:+.2f} % to "
      "pass",
      100.0 * gate.max_regress, gate.limit == stats::Limit::bound ? "no more" : "nothing", judged.p_worse,
      judged.p_adjusted, questions, questions == 1 ? "" : "s",
      0.5 * (1.0 - gate.confidence) * gate.error_share, 100.0 * judged.low, 100.0 * judged.high,
      -100.0 * gate.max_regress);
}

std::string why_undecided(const Finding& finding, const Config& config) {
  std::string text = "the limit lies within the interval: ";
  double doubt = 0.0;
  for (const auto& one : finding.doubts) doubt += one.share;
  if (doubt > config.gate.max_regress)
    return text + "what disturbed the measurement could explain it; measure again";
  return text + (config.paired
                     ? "more pairs are needed"
                     : "use more --rounds or several runs a side, a quieter machine, or `dtrain ab`, "
                       "which measures both in turns");
}

void decide(std::vector<OpenFinding>& open, const Config& config) {
  std::vector<stats::Question> questions;
  for (const auto& one : open) {
    if (one.evidence) questions.push_back({one.evidence.get(), one.may_feign, one.may_hide});
  }
  const auto judgements = stats::judge(questions, config.gate);
  std::size_t next = 0;
  for (auto& one : open) {
    if (!one.evidence) continue;
    Finding& finding = one.finding;
    finding.judgement = judgements[next++];
    turn(finding);
    for (const auto& doubt : finding.doubts) {
      finding.arithmetic.push_back(
          fmt::format("{:.2f} % of the rate may come from this, {}", 100.0 * doubt.share, doubt.what));
    }
    finding.arithmetic.push_back(verdict_arithmetic(finding, config.gate, questions.size()));
    if (finding.judgement.verdict == Verdict::cannot_tell) finding.reason = why_undecided(finding, config);
  }
}

std::size_t count(const Comparison& comparison, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count_if(
      comparison.findings, [&](const Finding& finding) { return finding.judgement.verdict == verdict; }));
}

const Finding* worst(const Comparison& comparison) {
  const Finding* found = nullptr;
  for (const auto& finding : comparison.findings) {
    if (finding.judgement.verdict != Verdict::worse) continue;
    if (found == nullptr || finding.judgement.change < found->judgement.change) found = &finding;
  }
  return found;
}

std::string in_words(const Finding& finding) {
  return fmt::format("{} of {} changed by {:+.1f} % [{:+.1f} %, {:+.1f} %]", finding.metric,
                     finding.configuration, 100.0 * finding.change, 100.0 * finding.low,
                     100.0 * finding.high);
}

void conclude(Comparison& comparison) {
  const double limit = 100.0 * comparison.config.gate.max_regress;
  const std::size_t unclear = count(comparison, Verdict::cannot_tell);
  const std::size_t judged = comparison.findings.size();
  if (const Finding* finding = worst(comparison)) {
    comparison.outcome = Outcome::regression;
    comparison.headline = fmt::format("Worse: {}, more than the {:g} % allowed.", in_words(*finding), limit);
  } else if (judged == 0) {
    comparison.outcome = Outcome::cannot_compare;
    comparison.headline = "Cannot compare: there is nothing that both sides measured.";
  } else if (unclear > 0 || !comparison.missing.empty()) {
    comparison.outcome = Outcome::cannot_tell;
    comparison.headline =
        unclear > 0
            ? fmt::format("Cannot tell: {} of {} answers are open at a limit of {:g} %.", unclear, judged,
                          limit)
            : fmt::format("Cannot tell: {} {} not measured on the new side.", join(comparison.missing, ", "),
                          comparison.missing.size() == 1 ? "was" : "were");
  } else {
    comparison.outcome = Outcome::pass;
    const std::size_t better = count(comparison, Verdict::better);
    comparison.headline = better > 0 ? fmt::format("Better: {} of {} improved, none lost {:g} % or more.",
                                                   better, judged, limit)
                                     : fmt::format("Same: none of {} lost {:g} % or more.", judged, limit);
  }
  if (comparison.forced) comparison.headline = "Forced, on unequal work: " + comparison.headline;
}

// What remains is what the sides are; what they measured is in the findings.
void drop_samples(Side& side) {
  for (auto& result : side.results) {
    result.samples.runs.clear();
    result.summary = {};
  }
}

void refuse(Comparison& comparison, const std::string& why) {
  comparison.outcome = Outcome::cannot_compare;
  comparison.headline = fmt::format("Cannot compare: {}.", why);
  comparison.notes.emplace_back(
      "measure both to the end, with the same flags on the same machine; keep a baseline for each machine "
      "key");
}

void fill(Comparison& comparison) {
  for (const Side* side : {&comparison.base, &comparison.next}) {
    if (const std::string why = incomplete(*side); !why.empty()) return refuse(comparison, why);
  }
  const auto [pairs, missing, added] = pair_up(comparison.base, comparison.next);
  comparison.missing = missing;
  comparison.added = added;
  find_differences(comparison, pairs);
  std::vector<std::string> unequal;
  for (const auto& difference : comparison.differences) {
    if (difference.kind == Difference::Kind::work) unequal.push_back(difference.key);
  }
  if (!unequal.empty() && !comparison.config.force) {
    return refuse(comparison, fmt::format("not the same work on the same machine: {}", join(unequal, ", ")));
  }
  comparison.forced = !unequal.empty();
  std::vector<OpenFinding> open;
  for (const auto& pair : pairs) {
    for (const auto& name : comparison.config.metrics) {
      auto one = gather(comparison.base, comparison.next, pair, metrics().at(name), comparison.config);
      if (one) open.push_back(std::move(*one));
    }
  }
  decide(open, comparison.config);
  for (auto& one : open) comparison.findings.push_back(std::move(one.finding));
  conclude(comparison);
}

}  // namespace

std::string name(Outcome outcome) {
  switch (outcome) {
    case Outcome::pass:
      return "pass";
    case Outcome::regression:
      return "regression";
    case Outcome::cannot_tell:
      return "cannot tell";
    case Outcome::cannot_compare:
      return "cannot compare";
  }
  return "";
}

Comparison compare(Side base, Side next, const Config& config) {
  for (const auto& metric : config.metrics) metrics().at(metric);
  Comparison comparison;
  comparison.base = std::move(base);
  comparison.next = std::move(next);
  comparison.config = config;
  if (!config.paired) {
    drop_copies(comparison.base, comparison.notes);
    drop_copies(comparison.next, comparison.notes);
  }
  for (const Side* side : {&comparison.base, &comparison.next}) mention_others(*side, comparison.notes);
  fill(comparison);
  drop_samples(comparison.base);
  drop_samples(comparison.next);
  return comparison;
}

ExitCode exit_code(const Comparison& comparison) {
  switch (comparison.outcome) {
    case Outcome::pass:
      return ExitCode::fine;
    case Outcome::regression:
      return ExitCode::regression;
    case Outcome::cannot_tell:
    case Outcome::cannot_compare:
      break;
  }
  return ExitCode::no_verdict;
}

}  // namespace dtrain::compare
