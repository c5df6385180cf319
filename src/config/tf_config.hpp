#pragma once

#include <string>

#include "config/cluster_spec.hpp"

namespace dtrain::config {

// Reads {"cluster": {role: [host:port, ...]}, "task": {"type": role, "index": k}}. A role's list may also be
// a map from index to address, as dynamic clusters write it. Usage error that names position, key, index or
// address.
ClusterPlace parse_tf_config(const std::string& text);

}  // namespace dtrain::config
