#include "backend/xla/plugin.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace dtrain::backend::xla {

namespace {

// The first of 2024's second half: what is older is not known to take programs as text of today's StableHLO.
constexpr int oldest_minor = 54;

constexpr const char* get_plugin =
    "docs/tpu.md names plugins and where to get them: `pip install libtpu` on a TPU machine, `pip install "
    "xla-cpu-pjrt` for the processor";

const PJRT_Api* open(const std::filesystem::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    throw environment_error(fmt::format("the PJRT plugin cannot be loaded: {}", why != nullptr ? why : "?"),
                            get_plugin);
  }
  using Entry = const PJRT_Api* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "GetPjrtApi"));
  const PJRT_Api* api = entry != nullptr ? entry() : nullptr;
  if (api == nullptr) {
    throw environment_error(fmt::format("{} is no PJRT plugin: it has no GetPjrtApi", file.string()),
                            get_plugin);
  }
  return api;
}

// Everything that is called lies before this function in the interface.
bool has_all_functions(const PJRT_Api& api) {
  return api.struct_size >= offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
}

// What goes wrong while something is freed has nobody to tell.
void forget(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return;
  auto call = arguments<PJRT_Error_Destroy_Args>(PJRT_Error_Destroy_Args_STRUCT_SIZE);
  call.error = error;
  api->PJRT_Error_Destroy(&call);
}

}  // namespace

Plugin::Plugin(const std::filesystem::path& file) : file_(file), api_(open(file)) {
  const PJRT_Api_Version& spoken = api_->pjrt_api_version;
  if (spoken.major_version != PJRT_API_MAJOR || spoken.minor_version < oldest_minor ||
      !has_all_functions(*api_)) {
    throw environment_error(
        fmt::format("the PJRT plugin {} speaks version {}.{} of the interface; {}.{} or a later one of {}.x "
                    "is needed",
                    file.string(), spoken.major_version, spoken.minor_version, PJRT_API_MAJOR, oldest_minor,
                    PJRT_API_MAJOR),
        "install a newer one: pip install --upgrade libtpu (or the package that this plugin came with)");
  }
  auto call = arguments<PJRT_Plugin_Initialize_Args>(PJRT_Plugin_Initialize_Args_STRUCT_SIZE);
  const std::string problem = take_message(api_->PJRT_Plugin_Initialize(&call));
  if (!problem.empty()) {
    throw environment_error(fmt::format("the PJRT plugin {} does not start: {}", file.string(), problem),
                            get_plugin);
  }
}

std::string Plugin::version() const {
  return fmt::format("PJRT {}.{}", api_->pjrt_api_version.major_version,
                     api_->pjrt_api_version.minor_version);
}

std::string Plugin::take_message(PJRT_Error* error) const {
  if (error == nullptr) return {};
  auto asked = arguments<PJRT_Error_Message_Args>(PJRT_Error_Message_Args_STRUCT_SIZE);
  asked.error = error;
  api_->PJRT_Error_Message(&asked);
  std::string message(asked.message, asked.message_size);
  forget(api_, error);
  return message.empty() ? "no reason given" : message.substr(0, message.find('\n'));
}

void Plugin::check(PJRT_Error* error, const std::string& doing) const {
  if (error == nullptr) return;
  auto asked = arguments<PJRT_Error_GetCode_Args>(PJRT_Error_GetCode_Args_STRUCT_SIZE);
  asked.error = error;
  asked.code = PJRT_Error_Code_UNKNOWN;
  take_message(api_->PJRT_Error_GetCode(&asked));
  const bool memory = asked.code == PJRT_Error_Code_RESOURCE_EXHAUSTED;
  throw run_error(
      fmt::format("the devices of {} cannot {}: {}", file_.filename().string(), doing, take_message(error)),
      memory ? "use a smaller --batch-size" : "look at `dtrain info` and at the plugin's own messages");
}

void Destroyer::operator()(PJRT_Client* client) const {
  auto call = arguments<PJRT_Client_Destroy_Args>(PJRT_Client_Destroy_Args_STRUCT_SIZE);
  call.client = client;
  forget(api, api->PJRT_Client_Destroy(&call));
}

void Destroyer::operator()(PJRT_Buffer* buffer) const {
  auto call = arguments<PJRT_Buffer_Destroy_Args>(PJRT_Buffer_Destroy_Args_STRUCT_SIZE);
  call.buffer = buffer;
  forget(api, api->PJRT_Buffer_Destroy(&call));
}

void Destroyer::operator()(PJRT_Event* event) const {
  auto call = arguments<PJRT_Event_Destroy_Args>(PJRT_Event_Destroy_Args_STRUCT_SIZE);
  call.event = event;
  forget(api, api->PJRT_Event_Destroy(&call));
}

void Destroyer::operator()(PJRT_LoadedExecutable* executable) const {
  auto call = arguments<PJRT_LoadedExecutable_Destroy_Args>(PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE);
  call.executable = executable;
  forget(api, api->PJRT_LoadedExecutable_Destroy(&call));
}

}  // namespace dtrain::backend::xla
