#pragma once

#include <memory>

#include "comm/compressor.hpp"

namespace dtrain::comm {

// Every process sends the `share` (above 0, at most 1) of a bucket's elements that is largest in magnitude,
// and at least one of them, as index and value; all add them up in rank order. What was not sent is added to
// the next step's gradient (Stich et al. 2018, Lin et al. 2018). Sends 8 bytes an element to every other
// process, which is more than the whole bucket for shares above 1 / processes.
std::unique_ptr<Compressor> make_top_k_compressor(double share);

}  // namespace dtrain::comm
