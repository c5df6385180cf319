#include "comm/mpi/exchange.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "backend/module_table.hpp"
#include "base/error.hpp"

namespace dtrain::comm {

namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libdtrain_mpi.so";
constexpr const char* build_again = "build dtrain again: ./dtrain does it when a source is newer";

std::vector<fs::path> places() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {folder / file_name, (folder / "../lib/dtrain").lexically_normal() / file_name};
}

MpiModule unusable(const fs::path& file, std::string problem, std::string advice) {
  return {file, nullptr, std::move(problem), std::move(advice)};
}

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown error of the dynamic linker";
}

MpiModule open(const fs::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return unusable(file, fmt::format("the MPI module cannot be loaded: {}", last_dl_error()),
                    "install Open MPI (openmpi-bin), or use --comm gloo");
  }
  const auto entry = reinterpret_cast<MpiEntry>(::dlsym(library, mpi_entry));
  if (entry == nullptr) {
    return unusable(file, fmt::format("{} is no MPI module of dtrain: {}", file.string(), last_dl_error()),
                    build_again);
  }
  const MpiTable* table = entry();
  if (table->abi != mpi_abi || std::string_view(table->interface_id) != backend::interface_id()) {
    return unusable(
        file, fmt::format("the MPI module {} was built from other sources than this program", file.string()),
        build_again);
  }
  table->redirect_log(&log);
  return {file, table, "", ""};
}

const MpiTable& require_mpi() {
  if (!started_by_mpi()) {
    throw usage_error("--comm mpi needs mpirun, and it has not started this process",
                      "start the workers with `mpirun -np N dtrain ...`, or use --comm gloo");
  }
  const MpiModule& module = mpi_module();
  if (module.table == nullptr) throw environment_error("--comm mpi: " + module.problem, module.advice);
  return *module.table;
}

// Set once a call has gone through to MPI.
std::atomic<const MpiTable*>& used() {
  static std::atomic<const MpiTable*> table{nullptr};
  return table;
}

const MpiTable& use_mpi() {
  const MpiTable& table = require_mpi();
  used() = &table;
  return table;
}

}  // namespace

MpiModule load_mpi_module(const std::vector<fs::path>& files) {
  for (const auto& file : files) {
    std::error_code error;
    if (fs::exists(file, error)) return open(file);
  }
  return unusable(
      files.empty() ? fs::path() : files.front(),
      fmt::format("this build of dtrain has no MPI module ({} is not beside the program)", file_name),
      "it is built where MPI is: install libopenmpi-dev and openmpi-bin and build again, or use --comm gloo");
}

const MpiModule& mpi_module() {
  static const MpiModule module = load_mpi_module(places());
  return module;
}

bool started_by_mpi() {
  struct Launcher {
    const char* variable;
    const char* library;
  };
  constexpr std::array launchers{Launcher{"OMPI_COMM_WORLD_SIZE", "Open MPI"},
                                 Launcher{"PMIX_RANK", "Open MPI"}, Launcher{"PMI_RANK", "MPICH"}};
  const std::string library = mpi_library();
  return std::ranges::any_of(launchers, [&](const Launcher& launcher) {
    return std::getenv(launcher.variable) != nullptr &&
           (library.empty() || library.find(launcher.library) != std::string::npos);
  });
}

std::unique_ptr<Exchange> make_mpi_exchange(const ExchangeConfig& config) {
  if (config.algorithm != "auto") {
    throw usage_error(fmt::format("--allreduce {} is for Gloo, and messages go by MPI", config.algorithm),
                      "leave --allreduce out: each process sums a share in rank order, whatever the size; or "
                      "use --comm gloo");
  }
  return use_mpi().make_exchange(config);
}

std::string broadcast_by_mpi(const std::string& text, const Deadline& deadline) {
  return use_mpi().broadcast_text(text, deadline);
}

void finish_mpi() {
  if (const MpiTable* table = used()) table->finish();
}

std::string mpi_library() {
  const MpiModule& module = mpi_module();
  return module.table == nullptr ? "" : module.table->library();
}

}  // namespace dtrain::comm
