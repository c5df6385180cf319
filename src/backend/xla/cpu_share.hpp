#pragma once

#include <functional>
#include <string>
#include <vector>

// XLA's CPU plugin computes on as many threads as there are cores when a client is made, whatever the number
// of its devices. Bound to a share of the cores, N devices have N times the hardware of one.
namespace dtrain::backend::xla {

// Binds the calling thread to these cores for good, and with it all threads that `make` starts, which it is
// called for. Environment error when one of them is not bound: its devices would have more than their share.
void make_on_cores(const std::vector<int>& cores, const std::function<void()>& make);

}  // namespace dtrain::backend::xla
