#pragma once

#include <pjrt_c_api.h>

#include <filesystem>
#include <memory>
#include <string>

// The C interface of PJRT plugins: loaded, checked, and every object of it owned.
namespace dtrain::backend::xla {

// A PJRT plugin in this process, where it stays until the process ends.
class Plugin {
 public:
  // Environment error where the file cannot be loaded, is no plugin, or speaks an interface this program does
  // not know.
  explicit Plugin(const std::filesystem::path& file);

  const PJRT_Api& api() const { return *api_; }
  const std::filesystem::path& file() const { return file_; }
  std::string version() const;  // "PJRT 0.81"

  // Throws what went wrong, if something did, as a run error: "cannot DOING: what the plugin says".
  void check(PJRT_Error* error, const std::string& doing) const;
  // The message of an error, which is freed; empty for none.
  std::string take_message(PJRT_Error* error) const;

 private:
  std::filesystem::path file_;
  const PJRT_Api* api_ = nullptr;
};

// The arguments of a call. `size` is the structure's without its padding, so that a newer plugin does not
// take padding for a field.
template <class Arguments>
Arguments arguments(std::size_t size) {
  Arguments made{};
  made.struct_size = size;
  return made;
}

struct Destroyer {
  const PJRT_Api* api = nullptr;
  void operator()(PJRT_Client* client) const;
  void operator()(PJRT_Buffer* buffer) const;
  void operator()(PJRT_Event* event) const;
  void operator()(PJRT_LoadedExecutable* executable) const;
};

template <class Object>
using Handle = std::unique_ptr<Object, Destroyer>;
using Buffer = Handle<PJRT_Buffer>;
using Event = Handle<PJRT_Event>;

template <class Object>
Handle<Object> own(const Plugin& plugin, Object* object) {
  return Handle<Object>(object, Destroyer{&plugin.api()});
}

}  // namespace dtrain::backend::xla
