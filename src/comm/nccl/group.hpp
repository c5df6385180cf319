#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace dtrain::comm {

// Ranks are threads of this process, each with a GPU to itself. Environment error for the second rank on one
// GPU. Recordings that hold collectives may outlive the communicators, but not this and them.
std::unique_ptr<LocalGroup> make_nccl_group(const LocalGroupConfig& config);

}  // namespace dtrain::comm
