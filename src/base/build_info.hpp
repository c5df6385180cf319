#pragma once

#include <string>

namespace dtrain {

// What this binary was built from, as the result file records it.
struct BuildInfo {
  std::string version;
  std::string commit;  // git describe at configure time, or "unknown"
  std::string compiler;
  std::string build_type;
  std::string sanitizers;  // empty in a normal build: figures of a sanitized one are worthless
};

BuildInfo build_info();

}  // namespace dtrain
