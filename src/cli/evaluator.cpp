#include "cli/evaluator.hpp"

#include <filesystem>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "train/checkpoint.hpp"

namespace dtrain::cli {

namespace {

constexpr auto pause = std::chrono::milliseconds(200);
constexpr double patience = 10.0;  // times the longest wait so far

using FileTime = std::filesystem::file_time_type;

std::optional<FileTime> written_at(const std::string& file) {
  std::error_code error;
  const FileTime time = std::filesystem::last_write_time(file, error);
  return error ? std::nullopt : std::optional(time);
}

// When the file was written, once that is later than `seen`; none where `stop` came first.
std::optional<FileTime> wait_for_checkpoint(const std::string& file, std::optional<FileTime> seen,
                                            const Deadline& deadline, const std::atomic<bool>& stop) {
  while (!stop.load()) {
    const auto time = written_at(file);
    if (time && time != seen) return time;
    if (deadline.passed()) {
      throw run_error(
          fmt::format("evaluator: no {} checkpoint at {} within {:.0f} s", seen ? "new" : "first", file,
                      deadline.allowed().count()),
          "give the evaluator the --checkpoint file that the chief writes, on a file system that both see");
    }
    std::this_thread::sleep_for(pause);
  }
  return std::nullopt;
}

}  // namespace

ExitCode evaluate_checkpoints(const Session& session, const std::atomic<bool>& stop) {
  const std::string& file = session.options.checkpoint;
  if (file.empty()) {
    throw usage_error("TF_CONFIG's task is an evaluator, and there is no --checkpoint to evaluate",
                      "give it the --checkpoint that training writes");
  }
  train::World world(world_config(session, session.plan.runs.front(), 0));
  const auto& images = session.data.test ? session.data.test : session.data.train;
  std::optional<FileTime> seen;
  Seconds longest = session.options.rendezvous_timeout;
  for (int epoch = 0; epoch < session.options.epochs;) {
    const TimePoint begin = Clock::now();
    seen = wait_for_checkpoint(file, seen, Deadline::in(longest), stop);
    if (!seen) return ExitCode::interrupted;
    longest = std::max(longest, Seconds(patience * seconds(Clock::now() - begin)));
    const train::Checkpoint checkpoint = train::read_checkpoint(file);
    world.load_state(checkpoint.state);
    epoch = static_cast<int>(std::ssize(checkpoint.evaluations));
    const train::Evaluation evaluation = world.evaluate(images);
    log_info(fmt::format("evaluator: epoch {}, step {}: loss {:.4f}, accuracy {:.2f} % of {} images", epoch,
                         checkpoint.state.step, evaluation.loss, 100.0 * evaluation.accuracy,
                         evaluation.images));
  }
  return ExitCode::fine;
}

}  // namespace dtrain::cli
