#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <span>
#include <string>

#include "base/units.hpp"

// Inside the MPI module.
namespace dtrain::comm::mpi {

// MPI in this process: begun when first asked for.
class Runtime {
 public:
  static Runtime& get();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Something in it failed: from now on MPI is left alone, also at the end.
  void leave_alone() { alone_ = true; }
  // MPI_Finalize, unless it was left alone.
  void finish();

 private:
  Runtime();

  int rank_ = 0;
  int size_ = 0;
  std::atomic<bool> alone_{false};
  std::atomic<bool> finished_{false};
};

// Throws a run error that says what MPI says, unless this is success.
void require(int code, const char* call);

// Tests until all requests are complete. MPI polls; while nothing comes the core is offered to others, or
// given up where there are more threads than cores. Throws a run error at the deadline or when `stop` says
// so.
void wait_all(std::span<MPI_Request> requests, const Deadline& deadline, const std::atomic<bool>& stop,
              bool busy_cores);

}  // namespace dtrain::comm::mpi
