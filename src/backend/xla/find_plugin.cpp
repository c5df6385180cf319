#include "backend/xla/find_plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend::xla {

namespace {

namespace fs = std::filesystem;

constexpr const char* linker_name = "libtpu.so";

std::string from_environment() {
  const char* path = std::getenv("TPU_LIBRARY_PATH");
  return path != nullptr ? path : "";
}

// Loading is the only way to ask the dynamic linker; what is found is used next.
bool linker_knows() { return ::dlopen(linker_name, RTLD_LAZY | RTLD_LOCAL) != nullptr; }

// Where `pip install libtpu` puts it. Empty without python3 or without the package.
fs::path from_python() {
  constexpr const char* ask =
      "python3 -c 'import importlib.util as u; s = u.find_spec(\"libtpu\"); "
      "print(s.submodule_search_locations[0] if s else \"\")' 2>/dev/null";
  struct Close {
    void operator()(std::FILE* pipe) const { ::pclose(pipe); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(::popen(ask, "r"));
  if (!pipe) return {};
  std::string folder;
  std::array<char, 4096> line{};
  if (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) folder = line.data();
  while (!folder.empty() && folder.back() == '\n') folder.pop_back();
  std::error_code error;
  const fs::path file = fs::path(folder) / linker_name;
  return !folder.empty() && fs::exists(file, error) ? file : fs::path();
}

bool has_entry(const char* folder, const char* beginning) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(beginning) && name != "vfio") return true;
  }
  return false;
}

[[noreturn]] void none_found() {
  throw environment_error(
      "no PJRT plugin found: --pjrt-plugin and TPU_LIBRARY_PATH are not set, and neither the dynamic linker "
      "nor "
      "python3 knows libtpu.so",
      "on a TPU machine: pip install libtpu; for the processor: cmake/fetch_pjrt.sh and --pjrt-plugin "
      "build/pjrt/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so; docs/tpu.md tells more");
}

[[noreturn]] void no_tpu(const fs::path& libtpu) {
  throw environment_error(
      fmt::format("no TPU here: there is neither a device /dev/accel* nor one in /dev/vfio ({} is there)",
                  libtpu.string()),
      "run on a TPU machine, or name the plugin with --pjrt-plugin to try all the same; for the processor: "
      "--pjrt-plugin with an XLA CPU plugin (docs/tpu.md)");
}

fs::path require_file(const std::string& path, const char* source) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  throw environment_error(fmt::format("{} {}: there is no such file", source, path),
                          "give the path of a PJRT plugin, a shared library (docs/tpu.md names some)");
}

}  // namespace

fs::path find_plugin(const std::string& asked) {
  if (!asked.empty()) return require_file(asked, "--pjrt-plugin");
  if (const std::string path = from_environment(); !path.empty())
    return require_file(path, "TPU_LIBRARY_PATH");
  const fs::path libtpu = linker_knows() ? fs::path(linker_name) : from_python();
  if (libtpu.empty()) none_found();
  if (!tpu_present()) no_tpu(libtpu);
  return libtpu;
}

// Older kernels have a driver of their own, newer ones lend the device to user space.
bool tpu_present() { return has_entry("/dev", "accel") || has_entry("/dev/vfio", ""); }

void quieten_plugins() {
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);  // errors only
  if (!tpu_present()) ::setenv("TPU_SKIP_MDS_QUERY", "1", 0);
}

}  // namespace dtrain::backend::xla
