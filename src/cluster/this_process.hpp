#pragma once

#include "cluster/member.hpp"

namespace dtrain::cluster {

// Host, boot and process; the rest is for the caller to fill in.
Peer this_process();

}  // namespace dtrain::cluster
