#pragma once

#include <nvtx3/nvToolsExt.h>

namespace dtrain::backend::cuda {

// Names a stretch of host code in the timeline of NVIDIA's profilers; a branch where none is attached.
class NamedRange {
 public:
  explicit NamedRange(const char* name) { nvtxRangePushA(name); }
  ~NamedRange() { nvtxRangePop(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace dtrain::backend::cuda
