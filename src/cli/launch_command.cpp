#include <unistd.h>

#include <filesystem>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/options.hpp"
#include "launch/arguments.hpp"
#include "launch/child_environment.hpp"
#include "launch/job.hpp"
#include "launch/ports.hpp"

namespace dtrain::cli {

namespace {

namespace fs = std::filesystem;
using config::Options;
using config::Task;
using Words = std::vector<std::string>;

constexpr int most_processes = 100;  // of a kind; they share one machine and its limits
constexpr int port_attempts = 3;

const Options defaults;

bool runs_on_workers(Command& command) {
  const auto flags = flags_of(command);
  return std::any_of(flags.begin(), flags.end(), [](const FlagEntry& flag) {
    return std::find(flag.names.begin(), flag.names.end(), "--rendezvous") != flag.names.end();
  });
}

// The command that `words` begin with. Usage error for one that cannot be, or that does not run on workers.
std::unique_ptr<Command> find_command(const Words& words) {
  if (words.empty()) {
    throw usage_error("there is no command behind `--`",
                      "write what the workers run: -- bench --strategy multi-worker");
  }
  Words known;
  bool exists = false;
  for (auto& command : make_commands()) {
    const bool fits = split(command->name(), ' ').front() == words.front();
    exists |= fits;
    if (command->starts_another() || !runs_on_workers(*command)) continue;
    if (fits) return std::move(command);
    known.push_back(command->name());
  }
  const auto close = nearest(words.front(), known);
  throw usage_error(exists ? fmt::format("`dtrain {}` does not run on workers", words.front())
                           : fmt::format("unknown command '{}' behind `--`", words.front()),
                    (close && !exists ? fmt::format("did you mean '{}'? ", *close) : std::string()) +
                        "commands that do: " + join(known, ", "));
}

// The program itself, by a path that can be run again.
fs::path this_program() {
  const fs::path link = "/proc/self/exe";
  std::error_code failure;
  const fs::path program = fs::read_symlink(link, failure);
  return failure || !fs::exists(program, failure) ? link : program;
}

std::string title_of(const Task& task) { return fmt::format("{} {}", task.role, task.index); }

// A checkpoint that a failed job may have left: of this job only if it was written since the job began.
class Checkpoint {
 public:
  explicit Checkpoint(const Words& command) {
    if (command.front() != "train") return;
    path_ = launch::last_value(command, "--checkpoint").value_or("");
    before_ = written();
  }

  bool usable() const { return !path_.empty() && written() && written() != before_; }
  const std::string& path() const { return path_; }

 private:
  std::optional<fs::file_time_type> written() const {
    std::error_code failure;
    const auto time = fs::last_write_time(path_, failure);
    return failure ? std::nullopt : std::optional(time);
  }

  std::string path_;
  std::optional<fs::file_time_type> before_;
};

// A worker was lost: started again, the job may go through. What is wrong with its input stays wrong.
bool may_be_started_again(const launch::JobOutcome& outcome) {
  const auto cause = launch::cause_of(outcome.endings);
  return outcome.interrupted_by == 0 && cause && launch::exit_code_of(outcome.endings) == ExitCode::run;
}

class LaunchCommand final : public Command {
 public:
  std::string name() const override { return "launch"; }
  std::string summary() const override {
    return "Starts a job of several workers on this machine, and sees to its end";
  }
  std::string footer() const override {
    return "Examples:\n"
           "  dtrain launch --workers 2 -- bench --strategy multi-worker\n"
           "  dtrain launch --workers 4 --ps 2 -- bench --strategy parameter-server\n"
           "  dtrain launch --workers 2 --restarts 3 -- train --strategy multi-worker --checkpoint "
           "state.bin\n"
           "Every process gets a TF_CONFIG of its own. What they write is shown with their names before it, "
           "but for the\n"
           "report of the first, which goes to stdout as it is. The exit code is that of the process that "
           "failed first, 5\n"
           "if a signal ended it. docs/clusters.md tells how to start workers on several machines.";
  }

  bool starts_another() const override { return true; }
  void take_other(Words words) override { command_ = std::move(words); }

  void declare(Flags& flags) override {
    flags.group("Job");
    flags.value("--workers", "N", "Workers, the chief among them", [this](const std::string& text) {
      workers_ = config::parse_integer(text, "--workers", 1, most_processes);
    });
    flags.value("--ps", "M", "Parameter servers besides [0]", [this](const std::string& text) {
      servers_ = config::parse_integer(text, "--ps", 0, most_processes);
    });
    flags.toggle("--chief", "Call the first worker `chief`, a role of its own", chief_);
    flags.value("--host", "ADDRESS", "Of this machine, where the workers listen [127.0.0.1]",
                [this](const std::string& text) { host_ = text; });
    flags.group("Failures");
    flags.value(
        "--restarts", "K",
        "Start a job that lost a worker again, so often at most; training goes on from --checkpoint [0]",
        [this](const std::string& text) {
          restarts_ = config::parse_integer(text, "--restarts", 0, 1'000'000);
        });
    flags.value("--timeout", "TIME",
                "For the others to end by themselves when one has failed [the command's --timeout]",
                [this](const std::string& text) { timeout_ = config::parse_duration(text, "--timeout"); });
    flags.group("Output");
    flags.path("--log-dir", "DIR", "Folder for one log a process [logs in the command's --out]", log_folder_);
    flags.toggle("--quiet", "Only warnings and what the workers write", quiet_);
  }

  ExitCode run(const std::string&) override {
    set_up_log(quiet_);
    if (!workers_)
      throw usage_error("--workers is missing", "say how many: dtrain launch --workers 2 -- ...");
    if (const std::string help = check_command(); !help.empty()) {
      print_out(help);
      return ExitCode::fine;
    }
    prepare_log_folder();

    launch::Signals signals;
    const launch::JobOutcome outcome = run_until_done(signals);
    if (outcome.interrupted_by != 0) throw Interrupted();
    return conclude(outcome);
  }

 private:
  // Flags that are wrong are refused here, once, before anything is started. The text, if help is asked for.
  std::string check_command() const {
    const auto command = find_command(command_);
    std::string help;
    parse_arguments(*command, {command_.begin() + 1, command_.end()}, help);
    return help;
  }

  void prepare_log_folder() {
    if (log_folder_.empty())
      log_folder_ = fs::path(launch::last_value(command_, "--out").value_or(defaults.out)) / "logs";
    try {
      require_writable_directory(log_folder_);
    } catch (const Error& error) {
      throw environment_error(error.what(), "choose another folder for the logs with --log-dir DIR");
    }
  }

  launch::JobOutcome run_until_done(launch::Signals& signals) {
    const Checkpoint checkpoint(command_);
    Words command = command_;
    std::string again;
    int restart = 0;
    int port_failures = 0;
    while (true) {
      const launch::JobOutcome outcome = run_once(command, again, signals);
      show_endings(outcome);
      if (outcome.port_taken && outcome.interrupted_by == 0 && ++port_failures < port_attempts) {
        again = "started again with other ports: another program took one in the meantime";
      } else if (restart < restarts_ && may_be_started_again(outcome)) {
        again = fmt::format("restart {} of {}: {}", ++restart, restarts_, describe_cause(outcome));
        if (checkpoint.usable()) {
          command = launch::with_value(command, "--resume", checkpoint.path());
          again += "; going on from " + checkpoint.path();
        }
      } else {
        return outcome;
      }
      log_warning(again);
    }
  }

  launch::JobOutcome run_once(const Words& command, const std::string& again, launch::Signals& signals) {
    const auto ports = launch::reserve_ports(host_, *workers_ + servers_);
    lay_out(ports);
    launch::JobConfig job;
    job.timeout = job_timeout();
    job.again = again;
    job.on_start = [this](const std::vector<pid_t>& ids) { show_start(ids); };
    const std::string token = launch::make_job_token();
    Words arguments{"dtrain"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    for (const auto& task : tasks_) {
      const auto environment = launch::child_environment(environ, launch::tf_config(tasks_, task), token);
      const bool first_rank = job.processes.empty();
      job.processes.push_back(
          {title_of(task), {this_program(), arguments, environment, first_rank}, log_of(task)});
    }
    return launch::run_job(job, signals);
  }

  // The job's tasks by rank: chief, workers, parameter servers.
  void lay_out(const std::vector<launch::ReservedPort>& ports) {
    tasks_.clear();
    for (std::size_t rank = 0; rank < ports.size(); ++rank) {
      const int place = static_cast<int>(rank);
      const int chiefs = chief_ ? 1 : 0;
      const std::string address = ports[rank].address();
      if (place < chiefs) {
        tasks_.push_back({"chief", 0, address});
      } else if (place < *workers_) {
        tasks_.push_back({"worker", place - chiefs, address});
      } else {
        tasks_.push_back({"ps", place - *workers_, address});
      }
    }
  }

  Seconds job_timeout() const {
    if (timeout_) return *timeout_;
    const auto text = launch::last_value(command_, "--timeout");
    return text ? config::parse_duration(*text, "--timeout") : defaults.timeout;
  }

  fs::path log_of(const Task& task) const {
    return fs::path(log_folder_) / fmt::format("{}-{}.log", task.role, task.index);
  }

  void show_start(const std::vector<pid_t>& ids) const {
    std::string text =
        fmt::format("{:>4}  {:<10} {:<22} {:>8}  {}", "rank", "role", "address", "process", "log");
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      const Task& task = tasks_[rank];
      text += fmt::format("\n{:>4}  {:<10} {:<22} {:>8}  {}", rank, title_of(task), task.address, ids[rank],
                          log_of(task).string());
    }
    log_info(text);
  }

  void show_endings(const launch::JobOutcome& outcome) const {
    std::string text;
    for (std::size_t rank = 0; rank < outcome.endings.size(); ++rank) {
      const launch::Ending& ending = outcome.endings[rank];
      text += fmt::format("{}{:<10} {} after {}{}", rank == 0 ? "" : "\n", title_of(tasks_[rank]),
                          ending.describe(), format_duration(ending.seconds),
                          ending.signal != 0 && ending.brought_about ? ", sent because it did not end" : "");
    }
    if (outcome.repeated_errors > 0)
      text += fmt::format("\nsaid by {} more, in the same words or of themselves: see their logs",
                          outcome.repeated_errors);
    log_info(text);
  }

  std::string describe_cause(const launch::JobOutcome& outcome) const {
    const std::size_t cause = launch::cause_of(outcome.endings).value();
    return fmt::format("{} {}", title_of(tasks_[cause]), outcome.endings[cause].describe());
  }

  ExitCode conclude(const launch::JobOutcome& outcome) const {
    if (const auto cause = launch::cause_of(outcome.endings)) {
      log_error(fmt::format("{}\n  -> what it wrote is in {}", describe_cause(outcome),
                            log_of(tasks_[*cause]).string()));
    }
    return launch::exit_code_of(outcome.endings);
  }

  Words command_;
  std::optional<int> workers_;
  int servers_ = 0;
  bool chief_ = false;
  std::string host_ = "127.0.0.1";
  int restarts_ = 0;
  std::optional<Seconds> timeout_;
  std::string log_folder_;
  bool quiet_ = false;
  std::vector<Task> tasks_;
};

}  // namespace

std::unique_ptr<Command> make_launch_command() { return std::make_unique<LaunchCommand>(); }

}  // namespace dtrain::cli
