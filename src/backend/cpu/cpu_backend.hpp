#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace dtrain::backend::cpu {

// Replicas on shares of the processor's cores, computed by oneDNN.
std::shared_ptr<const Backend> make_cpu_backend();

}  // namespace dtrain::backend::cpu
