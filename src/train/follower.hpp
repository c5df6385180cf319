#pragma once

#include <functional>
#include <string>

#include "cluster/member.hpp"
#include "train/world.hpp"

namespace dtrain::train {

// Makes the run of this id as the chief makes it.
using MakeWorld = std::function<WorldConfig(const std::string& run)>;

// Obeys the chief's orders in a process that is not it: hosts its ranks of every run, or serves. Returns when
// the job ends in order, throws what the chief ended it with, or JobEnded.
void follow(cluster::Member& member, const MakeWorld& make);

}  // namespace dtrain::train
