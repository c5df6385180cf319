#include "cli/run_in_job.hpp"

#include "base/log.hpp"
#include "cli/output.hpp"

namespace dtrain::cli {

namespace {

train::Failure as_failure(const Error& error) {
  return {.category = error.category(), .what = error.what(), .advice = error.advice()};
}

ExitCode lead_job(const Session& session, const std::function<ExitCode()>& lead) {
  const Job& job = session.job;
  try {
    const ExitCode code = lead();
    const train::Failure interrupted{.interrupted = true};
    job.leader->end(code == ExitCode::interrupted ? &interrupted : nullptr);
    log_info("cluster: the work is done, and all are told to leave");
    return code;
  } catch (const JobEnded&) {
    throw;
  } catch (const Error& error) {
    if (!job.member->loss()) {
      const train::Failure failure = as_failure(error);
      job.leader->end(&failure);
    }
    throw;
  }
}

}  // namespace

ExitCode run_in_job(const Session& session, const train::MakeWorld& make,
                    const std::function<ExitCode()>& lead) {
  const Job& job = session.job;
  if (job.alone()) return lead();
  // Whatever happens, in order or not: the chief goes last.
  const std::shared_ptr<void> goodbye(nullptr, [&](void*) { leave_job(job, session.options.timeout); });
  if (!job.follows()) return lead_job(session, lead);
  train::follow(*job.member, make);
  return ExitCode::fine;
}

ExitCode say_evaluator_is_idle(const std::string& command) {
  log_info(fmt::format("{} has no use for an evaluator: this process has nothing to do", command));
  return ExitCode::fine;
}

ExitCode show_plan(const Session& session, const std::string& work, const std::string& more) {
  if (!session.job.follows()) print_out(describe_plan(session, work) + more);
  if (!session.job.alone()) leave_job(session.job, session.options.timeout);
  return ExitCode::fine;
}

}  // namespace dtrain::cli
