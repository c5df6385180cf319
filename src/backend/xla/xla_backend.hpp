#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"

namespace dtrain::backend::xla {

// Devices behind a PJRT plugin: TPUs, or what `plugin` drives. Empty: libtpu, where it is found. The plugin
// is loaded when one of the backend's functions is called; environment error then where it cannot be used.
std::shared_ptr<const Backend> make_xla_backend(std::string plugin);

}  // namespace dtrain::backend::xla
