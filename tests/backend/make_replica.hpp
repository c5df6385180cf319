#pragma once

#include <memory>

#include "backend/replica.hpp"

// What the program that a test is linked into tests: each defines these for its backend.
namespace dtrain::testing {

std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig& config);

// Steps that golden numbers are held against: all 200, or 20 where a step takes long.
int golden_steps();

}  // namespace dtrain::testing
