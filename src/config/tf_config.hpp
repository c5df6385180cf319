#pragma once

#include <string>

namespace dtrain::config {

// This process's place in the cluster that a TF_CONFIG describes: ranks count chief, workers, then parameter
// servers.
struct ClusterPlace {
  int rank = 0;
  int world = 1;
  std::string role;
  int index = 0;
};

// Reads {"cluster": {role: [host:port, ...]}, "task": {"type": role, "index": k}}. A role's list may also be
// a map from index to address, as dynamic clusters write it. Usage error that names position, key, index or
// address.
ClusterPlace parse_tf_config(const std::string& text);

}  // namespace dtrain::config
