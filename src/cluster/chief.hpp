#pragma once

#include "cluster/member.hpp"

namespace dtrain::cluster {

// Of rank 0: listens, waits for all, serves the board. Returns its own member.
std::unique_ptr<Member> open_job(const JobConfig& config, std::vector<config::Task> tasks);

}  // namespace dtrain::cluster
