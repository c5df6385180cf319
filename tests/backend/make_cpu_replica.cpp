#include "backend/backend.hpp"
#include "make_replica.hpp"

namespace dtrain::testing {

std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig& config) {
  return backend::backend_for("cpu")->make_replica(config);
}

int golden_steps() { return 200; }

}  // namespace dtrain::testing
