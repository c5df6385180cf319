#pragma once

#include "cluster/member.hpp"

namespace dtrain::cluster {

// Of all other ranks: reaches the chief, waits until all are there.
std::unique_ptr<Member> follow(const JobConfig& config, const config::Task& self);

}  // namespace dtrain::cluster
