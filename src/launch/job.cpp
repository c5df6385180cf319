#include "launch/job.hpp"

#include <poll.h>

#include <cerrno>

#include "launch/relay.hpp"

namespace dtrain::launch {

namespace {

struct Member {
  Process process;
  Relay relay;
};

// How far the end of the job has come, once it has begun.
enum class Stage { running, ending, asked, killed };

class Job {
 public:
  Job(const JobConfig& config, Signals& signals) : config_(config), signals_(signals) {}

  JobOutcome run() {
    start();
    while (!all_ended()) {
      wait();
      heed_signals();
      collect();
      escalate();
    }
    for (const auto& member : members_) outcome_.endings.push_back(*member.process.ending());
    outcome_.repeated_errors = console_.repeated_errors();
    return std::move(outcome_);
  }

 private:
  void start() {
    const TimePoint start = Clock::now();
    std::vector<LogFile> logs;
    for (const auto& process : config_.processes) logs.emplace_back(process.log, config_.again, start);
    std::vector<pid_t> ids;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const JobProcess& process = config_.processes[i];
      const Speaker speaker{process.title, static_cast<int>(i)};
      members_.push_back({Process::start(process.spec, start), Relay(speaker, std::move(logs[i]), console_)});
      ids.push_back(members_.back().process.id());
    }
    if (config_.on_start) config_.on_start(ids);
  }

  bool all_ended() const {
    return std::all_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.process.ending().has_value(); });
  }

  int milliseconds_left() const {
    if (stage_ == Stage::running || stage_ == Stage::killed) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_stage_ - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

  void wait() {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    for (auto& member : members_) {
      for (const auto* end : {&member.process.out(), &member.process.error()}) {
        if (end->open()) watched.push_back({end->get(), POLLIN, 0});
      }
    }
    ::poll(watched.data(), watched.size(), milliseconds_left());
    for (auto& member : members_) {
      relay(member, Stream::out, member.process.out());
      relay(member, Stream::error, member.process.error());
    }
  }

  // What is there now; a pipe that has come to its end is closed.
  static void relay(Member& member, Stream stream, FileDescriptor& end) {
    std::array<char, 16384> bytes;
    for (int turn = 0; end.open() && turn < 16; ++turn) {
      const auto count = ::read(end.get(), bytes.data(), bytes.size());
      if (count > 0) member.relay.add(stream, {bytes.data(), static_cast<std::size_t>(count)});
      if (count == 0) end.close();
      if (count < 0 && errno != EINTR) return;
    }
  }

  void heed_signals() {
    for (const int signal : signals_.take()) {
      if (signal == SIGCHLD) continue;
      if (outcome_.interrupted_by != 0) {
        advance_to(Stage::killed, SIGKILL, Seconds(0.0));
        continue;
      }
      outcome_.interrupted_by = signal;
      advance_to(Stage::ending, signal == SIGHUP ? SIGTERM : signal, config_.timeout + config_.grace);
    }
  }

  void collect() {
    for (auto& member : members_) {
      Process& process = member.process;
      if (process.ending() || !process.poll()) continue;
      for (auto* end : {&process.out(), &process.error()}) {
        relay(member, end == &process.out() ? Stream::out : Stream::error, *end);
        end->close();
      }
      member.relay.finish(*process.ending());
      heed(*process.ending(), member.relay.found_its_port_taken());
    }
  }

  void heed(const Ending& ending, bool port_taken) {
    if (!ending.failed() || stage_ != Stage::running) return;
    outcome_.port_taken = port_taken;
    if (port_taken) {  // the others wait for one that cannot come
      advance_to(Stage::asked, SIGTERM, config_.grace);
    } else {
      advance_to(Stage::ending, 0, config_.timeout + config_.grace);
    }
  }

  void escalate() {
    if (milliseconds_left() != 0) return;
    if (stage_ == Stage::ending) {
      advance_to(Stage::asked, SIGTERM, config_.grace);
    } else if (stage_ == Stage::asked) {
      advance_to(Stage::killed, SIGKILL, Seconds(0.0));
    }
  }

  void advance_to(Stage stage, int signal, Seconds allowed) {
    stage_ = stage;
    next_stage_ = Deadline::in(allowed).at();
    if (signal == 0) return;
    for (auto& member : members_) member.process.send(signal);
  }

  const JobConfig& config_;
  Signals& signals_;
  Console console_;
  std::vector<Member> members_;
  Stage stage_ = Stage::running;
  TimePoint next_stage_;
  JobOutcome outcome_;
};

}  // namespace

JobOutcome run_job(const JobConfig& config, Signals& signals) { return Job(config, signals).run(); }

}  // namespace dtrain::launch
