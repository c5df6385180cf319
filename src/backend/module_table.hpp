#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.hpp"
#include "base/log.hpp"

namespace dtrain::comm {
class LocalGroup;
struct LocalGroupConfig;
}  // namespace dtrain::comm

namespace dtrain::backend {

using ModuleGroupMaker = std::unique_ptr<comm::LocalGroup> (*)(const comm::LocalGroupConfig&);

// What the CUDA module offers, the same structure on both sides. The first two members stay where they are
// for ever, so that a module of another make is known for one; `abi` counts changes of the others.
struct ModuleTable {
  std::uint32_t abi = 0;
  const char* interface_id = nullptr;
  std::shared_ptr<const Backend> (*make_backend)() = nullptr;
  ModuleGroupMaker (*find_communicator)(const char* name) = nullptr;  // null: it has none of that name
  void (*redirect_log)(LogTarget target) = nullptr;
};

inline constexpr std::uint32_t module_abi = 1;
inline constexpr const char* module_entry = "dtrain_cuda_module";
using ModuleEntry = const ModuleTable* (*)();

// Tells the headers apart that program and module are compiled with, and the compiler: classes and exceptions
// cross the boundary, so these must be the same.
const char* interface_id();

}  // namespace dtrain::backend
