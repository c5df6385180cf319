#include "backend/module_table.hpp"
#include "base/error.hpp"
#include "comm/mpi/module_table.hpp"
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/runtime.hpp"

// The one function that the module shows.
namespace dtrain::comm::mpi {

namespace {

void broadcast_bytes(void* data, std::size_t size, const Deadline& deadline) {
  static const std::atomic<bool> never{false};
  MPI_Request request = MPI_REQUEST_NULL;
  require(MPI_Ibcast(data, static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
  wait_all({&request, 1}, deadline, never, true);
}

std::string broadcast_text(const std::string& text, const Deadline& deadline) {
  Runtime& runtime = Runtime::get();
  try {
    std::uint64_t size = text.size();
    broadcast_bytes(&size, sizeof(size), deadline);
    std::string said = text;
    said.resize(size);
    broadcast_bytes(said.data(), size, deadline);
    return said;
  } catch (const Error& error) {
    runtime.leave_alone();
    throw run_error(
        fmt::format("the {} processes that mpirun started do not meet: {}", runtime.size(), error.what()),
        "see whether all of them run this program, with the same flags");
  }
}

void finish() { Runtime::get().finish(); }

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view whole(text, static_cast<std::size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of(",\n")));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiTable* dtrain_mpi_module() {
  static const MpiTable table = {.abi = mpi_abi,
                                 .interface_id = backend::interface_id(),
                                 .make_exchange = &make_exchange,
                                 .broadcast_text = &broadcast_text,
                                 .finish = &finish,
                                 .library = &library,
                                 .redirect_log = &redirect_log};
  return &table;
}

}  // namespace dtrain::comm::mpi
