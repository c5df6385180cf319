#include <algorithm>

#include "base/build_info.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/ab_turns.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/comparison_output.hpp"
#include "compare/schedule.hpp"
#include "compare/tables.hpp"
#include "config/options.hpp"
#include "launch/arguments.hpp"

namespace dtrain::cli {

namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

constexpr int most_pairs = 300;  // more would hardly narrow an interval further

// A folder for the runs' own files, gone with it unless the user named one.
class RunFolder {
 public:
  explicit RunFolder(const std::string& out) : kept_(!out.empty()) {
    if (kept_) {
      path_ = fs::path(out) / "runs";
    } else {
      std::string pattern = (fs::temp_directory_path() / "dtrain-ab-XXXXXX").string();
      if (::mkdtemp(pattern.data()) == nullptr) {
        throw environment_error(fmt::format("{}: no folder can be made there", pattern),
                                "name a folder for the runs with --out DIR");
      }
      path_ = pattern;
    }
    require_writable_directory(path_);
  }
  ~RunFolder() {
    std::error_code failure;
    if (!kept_) fs::remove_all(path_, failure);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  fs::path of(const std::string& who, int pair) const { return path_ / fmt::format("{}-{:03}", who, pair); }

 private:
  bool kept_;
  fs::path path_;
};

bool judged_all(const compare::Comparison& comparison) {
  return comparison.outcome == compare::Outcome::pass || comparison.outcome == compare::Outcome::regression ||
         comparison.outcome == compare::Outcome::cannot_compare;
}

class AbCommand final : public Command {
 public:
  AbCommand() {
    flags_.config.gate.max_regress = 0.02;
    flags_.config.gate.limit = stats::Limit::minimum_effect;
    flags_.config.gate.confidence = 0.98;
  }

  std::string name() const override { return "ab"; }
  std::string summary() const override {
    return "Runs two builds or two configurations in turns, and judges the pairs";
  }
  std::string footer() const override {
    return fmt::format(
        "Examples:\n"
        "  dtrain ab build/old/dtrain build/new/dtrain -- bench --gpus 2\n"
        "  dtrain ab -- bench --gpus 2 --bucket-mb 0.1 -- bench --gpus 2 --bucket-mb 25\n"
        "Without programs, or with one, this one is the new (and the base) program. With two commands, the "
        "first is\n"
        "the base, and what they differ in is compared on purpose. Each run is {} round of {}\n"
        "after {} steps of warm-up unless the command says otherwise, without the plain loop and N = 1 "
        "unless it says\n"
        "--bases. It stops when the verdict is clear or "
        "the budget is spent.\n"
        "Exit 0: better or the same; 1: worse; 6: cannot tell, or cannot be compared; 2 to 5: a run failed.",
        ab_rounds, ab_min_time, ab_warmup);
  }

  bool starts_another() const override { return true; }
  void take_other(Words words) override {
    const auto separator = std::ranges::find(words, "--");
    commands_.emplace_back(words.begin(), separator);
    if (separator != words.end()) commands_.emplace_back(separator + 1, words.end());
  }

  void declare(Flags& flags) override {
    flags.files("PROGRAM", "BASE and NEW: dtrain programs [this one]", programs_, false);
    declare_comparison_flags(flags, flags_);
    flags.group("Turns");
    flags.value("--budget", "TIME", "Time to spend; the pair under way is finished [180s]",
                [this](const std::string& text) { budget_ = config::parse_duration(text, "--budget"); });
    flags.value(
        "--run-timeout", "TIME", "Longest that one run may take [600s]",
        [this](const std::string& text) { run_timeout_ = config::parse_duration(text, "--run-timeout"); });
    flags.toggle("--quiet", "No progress, only warnings and the verdict", quiet_);
  }

  ExitCode run(const std::string&) override {
    set_up_log(quiet_);
    check_comparison_output(flags_);
    make_contenders();
    launch::Signals signals;
    const compare::Comparison comparison = take_turns(signals);
    deliver_comparison(comparison, flags_);
    if (interrupted_) throw Interrupted();
    return compare::exit_code(comparison);
  }

 private:
  void make_contenders() {
    if (programs_.size() > 2) {
      throw usage_error(fmt::format("two programs are compared, {} were given", programs_.size()),
                        "write: dtrain ab BASE NEW -- bench ...");
    }
    for (const auto& command : commands_) {
      if (command.empty() || command.front() != "bench") {
        throw usage_error(fmt::format("behind -- stands '{}'", command.empty() ? "nothing" : command.front()),
                          "`ab` runs `bench`: dtrain ab BASE NEW -- bench --gpus 2");
      }
      for (const char* flag : {"--out", "--format", "--baseline"}) {
        if (!launch::last_value(command, flag)) continue;
        throw usage_error(
            fmt::format("{} stands behind --, where `ab` itself says what becomes of results", flag),
            fmt::format("leave it out, or write --out and --format before the --"));
      }
      if (std::ranges::find(command, "--") != command.end()) {
        throw usage_error("more than two commands stand behind --", "give one for both programs, or two");
      }
    }
    if (programs_.empty() && commands_.size() == 1) {
      throw usage_error("a program is compared with itself, doing the same",
                        "name another program: dtrain ab BASE -- bench ...; or two commands: dtrain ab -- "
                        "bench ... -- bench ...");
    }
    const fs::path own = fs::read_symlink("/proc/self/exe");
    const fs::path base = programs_.empty() ? own : find_program(programs_.front());
    const fs::path next = programs_.size() < 2 ? own : find_program(programs_.back());
    base_ = {"base", base, commands_.front()};
    next_ = {"new", next, commands_.back()};
    flags_.config.paired = true;
    flags_.config.deliberate = commands_.size() == 2;
  }

  compare::Comparison take_turns(launch::Signals& signals) {
    const RunFolder folder(flags_.out);
    leave_out_bases(signals);
    const TimePoint begin = Clock::now();
    // A first pair brings programs and data into memory, and shows what does not fit together.
    run_pair(0, folder, signals);
    compare::Comparison comparison = judge({}, 1);
    if (comparison.outcome == compare::Outcome::cannot_compare) return comparison;
    const double first = seconds(Clock::now() - begin);
    base_side_.results.clear();
    next_side_.results.clear();
    const int pairs_in_time = static_cast<int>(std::max(budget_.count() - first, 0.0) / first);
    const auto looks = compare::looks(pairs_in_time);
    log_info(fmt::format("a pair takes about {}; some {} of them, and {} look{} at the evidence",
                         format_duration(first), pairs_in_time, looks.size(), looks.size() == 1 ? "" : "s"));
    if (pairs_in_time < compare::least_pairs) log_warning(how_much_budget(first));
    const auto spent = [&] { return seconds(Clock::now() - begin); };
    int pair = 0;
    try {
      for (const auto& look : looks) {
        const bool last = look.pairs == looks.back().pairs;
        while (pair < (last ? most_pairs : look.pairs) && spent() < budget_.count()) {
          run_pair(pair + 1, folder, signals);
          ++pair;
        }
        if (pair == 0) break;
        const bool over = last || spent() >= budget_.count();
        comparison = judge(over ? looks.back() : look, looks.size());
        show(comparison, pair, spent());
        if (over || judged_all(comparison)) break;
      }
    } catch (const Interrupted&) {
      if (pair == 0) throw;
      interrupted_ = true;
      drop_half_pair();
      comparison = judge(looks.back(), looks.size());
      comparison.notes.emplace_back("interrupted: more pairs were to come");
    }
    comparison.notes.push_back(fmt::format("{} pairs in {}, of a budget of {}", pair,
                                           format_duration(spent()), format_duration(budget_.count())));
    if (pair < compare::least_pairs && !interrupted_) comparison.notes.push_back(how_much_budget(first));
    return comparison;
  }

  static std::string how_much_budget(double pair_seconds) {
    return fmt::format(
        "fewer than {} pairs can show nothing, and a pair takes {}: give a --budget of {} or more",
        compare::least_pairs, format_duration(pair_seconds),
        format_duration((compare::least_pairs + 2) * pair_seconds));
  }

  void run_pair(int pair, const RunFolder& folder, launch::Signals& signals) {
    const auto one = [&](const Contender& contender, compare::Side& side) {
      side.results.push_back(
          run_contender(contender, folder.of(contender.name, pair), signals, Deadline::in(run_timeout_)));
    };
    if (compare::new_goes_first(pair)) {
      one(next_, next_side_);
      one(base_, base_side_);
    } else {
      one(base_, base_side_);
      one(next_, next_side_);
    }
  }

  // Time goes to what is asked about, unless a command says otherwise or a program is too old for that.
  void leave_out_bases(launch::Signals& signals) {
    for (const auto& command : commands_) {
      for (const char* flag : {"--bases", "--no-bases"}) {
        if (std::ranges::find(command, flag) != command.end()) return;
      }
    }
    const bool both = knows_no_bases(base_, signals) && knows_no_bases(next_, signals);
    base_.bases = next_.bases = !both;
  }

  void drop_half_pair() {
    const std::size_t pairs = std::min(base_side_.results.size(), next_side_.results.size());
    base_side_.results.resize(pairs);
    next_side_.results.resize(pairs);
  }

  compare::Comparison judge(const compare::Look& look, std::size_t looks) {
    compare::Config config = flags_.config;
    config.gate.error_share = look.error_share;
    config.looks = static_cast<int>(looks);
    base_side_.name = side_name(base_);
    next_side_.name = side_name(next_);
    return compare::compare(base_side_, next_side_, config);
  }

  std::string side_name(const Contender& contender) const {
    return commands_.size() == 2 ? quote_for_shell(contender.command) : contender.program.string();
  }

  static void show(const compare::Comparison& comparison, int pairs, double spent) {
    std::string text = fmt::format("{} pairs, {}:", pairs, format_duration(spent));
    for (const auto& finding : comparison.findings) text += "\n  " + compare::sentence(finding);
    log_info(text);
  }

  Words programs_;
  std::vector<Words> commands_;
  ComparisonFlags flags_;
  Seconds budget_{180.0};
  Seconds run_timeout_{600.0};
  bool quiet_ = false;
  bool interrupted_ = false;
  Contender base_;
  Contender next_;
  compare::Side base_side_;
  compare::Side next_side_;
};

}  // namespace

std::unique_ptr<Command> make_ab_command() { return std::make_unique<AbCommand>(); }

}  // namespace dtrain::cli
