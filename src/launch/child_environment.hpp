#pragma once

#include <string>
#include <vector>

#include "config/launch_environment.hpp"

namespace dtrain::launch {

// The TF_CONFIG of one of `tasks`, which stand by rank.
std::string tf_config(const std::vector<config::Task>& tasks, const config::Task& mine);

// 32 random bytes as text: what processes of one job show each other.
std::string make_job_token();

// `inherited` ("NAME=value", ended by a null pointer) without what other launchers left there, and with this
// job's variables.
std::vector<std::string> child_environment(const char* const* inherited, const std::string& tf_config,
                                           const std::string& token);

}  // namespace dtrain::launch
