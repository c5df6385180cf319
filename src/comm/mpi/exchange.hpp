#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange.hpp"
#include "comm/mpi/module_table.hpp"

// MPI is used by a shared library of its own, so that one program starts with and without it. It is loaded
// when it is first needed.
namespace dtrain::comm {

struct MpiModule {
  std::filesystem::path file;       // that was loaded, or would have been
  const MpiTable* table = nullptr;  // null: `problem` says why
  std::string problem;              // a sentence without its full stop
  std::string advice;
};

// Loads the first of these files that is there. What is loaded stays until the process ends.
MpiModule load_mpi_module(const std::vector<std::filesystem::path>& files);

// The one that belongs to this program: beside the executable, or in ../lib/dtrain/ of an installed tree.
const MpiModule& mpi_module();

// Whether mpirun (or what else starts MPI programs) has started this process, as its environment says, with
// the MPI that the module is built with.
bool started_by_mpi();

// Messages go by MPI. A failure or a loss ends the waits and leaves MPI alone from then on: such a process
// must exit without finish_mpi, and mpirun then ends those that are left. Usage error where mpirun did not
// start the process, environment error where there is no module.
std::unique_ptr<Exchange> make_mpi_exchange(const ExchangeConfig& config);

// What the process of rank 0 among all that mpirun started says, on all of them: where to meet. Run error
// for those that do not come in time.
std::string broadcast_by_mpi(const std::string& text, const Deadline& deadline);

// Ends MPI in order, once nothing uses it any more; all processes call. Does nothing where MPI was not used,
// or something failed in it.
void finish_mpi();

// "Open MPI v4.1.4", or "" where it cannot be used.
std::string mpi_library();

}  // namespace dtrain::comm
