#include "backend/cuda_module.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace dtrain::backend {

namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libdtrain_cuda.so";
constexpr const char* build_again = "build dtrain again: ./dtrain does it when a source is newer";

std::vector<fs::path> places() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {folder / file_name, (folder / "../lib/dtrain").lexically_normal() / file_name};
}

CudaModule unusable(const fs::path& file, std::string problem, std::string advice) {
  return {file, nullptr, std::move(problem), std::move(advice)};
}

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown error of the dynamic linker";
}

CudaModule open(const fs::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return unusable(file, fmt::format("the CUDA module cannot be loaded: {}", last_dl_error()),
                    "the file it names belongs to the CUDA toolkit, cuDNN or NCCL: docs/cuda.md tells how to "
                    "get them");
  }
  const auto entry = reinterpret_cast<ModuleEntry>(::dlsym(library, module_entry));
  if (entry == nullptr) {
    return unusable(file, fmt::format("{} is no CUDA module of dtrain: {}", file.string(), last_dl_error()),
                    build_again);
  }
  const ModuleTable* table = entry();
  if (table->abi != module_abi) {
    return unusable(file,
                    fmt::format("the CUDA module {} speaks version {} of the interface, this program version "
                                "{}",
                                file.string(), table->abi, module_abi),
                    build_again);
  }
  if (std::string_view(table->interface_id) != interface_id()) {
    return unusable(
        file, fmt::format("the CUDA module {} was built from other sources than this program", file.string()),
        build_again);
  }
  table->redirect_log(&log);
  return {file, table, "", ""};
}

class ModuleBackend final : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() const override { return real().devices(); }
  std::vector<std::string> libraries() const override { return real().libraries(); }
  std::string driver() const override { return real().driver(); }
  std::vector<DeviceCondition> conditions() const override { return real().conditions(); }
  std::vector<std::string> check_precision(config::Precision precision) const override {
    return real().check_precision(precision);
  }
  std::size_t estimate_memory(const ReplicaConfig& config) const override {
    return real().estimate_memory(config);
  }
  std::unique_ptr<Replica> make_replica(const ReplicaConfig& config) const override {
    return real().make_replica(config);
  }

 private:
  static const Backend& real() {
    static const std::shared_ptr<const Backend> backend = require_cuda_module().make_backend();
    return *backend;
  }
};

}  // namespace

CudaModule load_cuda_module(const std::vector<fs::path>& files) {
  for (const auto& file : files) {
    std::error_code error;
    if (fs::exists(file, error)) return open(file);
  }
  return unusable(
      files.empty() ? fs::path() : files.front(),
      fmt::format("this build of dtrain has no CUDA module ({} is not beside the program)", file_name),
      "it is built where the CUDA toolkit, cuDNN and NCCL are: docs/cuda.md tells how to get them");
}

const CudaModule& cuda_module() {
  static const CudaModule module = load_cuda_module(places());
  return module;
}

const ModuleTable& require_cuda_module() {
  const CudaModule& module = cuda_module();
  if (module.table == nullptr) throw environment_error(module.problem, module.advice);
  return *module.table;
}

std::shared_ptr<const Backend> make_cuda_module_backend() { return std::make_shared<ModuleBackend>(); }

}  // namespace dtrain::backend
