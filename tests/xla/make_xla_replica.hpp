#pragma once

#include "backend/xla/xla_replica.hpp"

namespace dtrain::testing {

// On devices of XLA's plugin for the processor. Not `on_cpu`: with programs as other devices are given them.
std::unique_ptr<backend::xla::XlaReplica> make_xla_replica(const backend::ReplicaConfig& config, int devices,
                                                           bool on_cpu = true);

}  // namespace dtrain::testing
