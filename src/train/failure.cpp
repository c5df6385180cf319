#include "train/failure.hpp"

#include <new>

namespace dtrain::train {

void Failure::raise() const {
  if (interrupted) throw Interrupted();
  if (job_ended) throw JobEnded(what, advice);
  throw Error(category, what, advice);
}

Failure failure_in_flight(int rank, std::int64_t step) {
  Failure failure;
  failure.rank = rank;
  const std::string where =
      step > 0 ? fmt::format("step {}, rank {}: ", step, rank) : fmt::format("rank {}: ", rank);
  try {
    throw;
  } catch (const Interrupted&) {
    failure.interrupted = true;
    failure.what = "interrupted";
  } catch (const Abandoned&) {
    failure.echo = true;
    failure.what = where + "ended because another rank failed";
  } catch (const NotFinite& error) {
    failure.culprit = error.own();
    failure.echo = !error.own();
    failure.what = where + error.what();
    failure.advice = error.advice();
  } catch (const JobEnded& error) {
    failure.job_ended = true;
    failure.what = where + error.what();
    failure.advice = error.advice();
  } catch (const Error& error) {
    failure.category = error.category();
    failure.what = where + error.what();
    failure.advice = error.advice();
  } catch (const std::bad_alloc&) {
    failure.category = ErrorCategory::environment;
    failure.what = where + "out of memory";
    failure.advice = "use a smaller --batch-size or fewer replicas";
  } catch (const std::exception& error) {
    failure.what = where + error.what();
    failure.advice = "this is a fault in the program: please report it with the command line";
  } catch (...) {
    failure.what = where + "unknown failure";
  }
  return failure;
}

bool FailureLog::add(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  const bool first = !cause_;
  if (first || (failure.culprit && (!cause_->culprit || failure.rank < cause_->rank))) cause_ = failure;
  any_.store(true, std::memory_order_release);
  return first;
}

void FailureLog::clear() {
  const std::lock_guard lock(mutex_);
  cause_.reset();
  any_.store(false, std::memory_order_release);
}

std::optional<Failure> FailureLog::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace dtrain::train
