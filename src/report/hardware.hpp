#pragma once

#include <vector>

#include "report/result.hpp"
#include "report/tables.hpp"

namespace dtrain::report {

// What the work asked of the devices, as far as it is known: share of their peaks, memory of a replica,
// clocks and heat.
std::vector<Fact> hardware_facts(const Result& result);

}  // namespace dtrain::report
