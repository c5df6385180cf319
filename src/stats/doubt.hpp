#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/samples.hpp"

namespace dtrain::stats {

// Something seen beside the measurement that may have changed its rate, and by how much at most.
struct Doubt {
  double share = 0.0;      // of the rate; 1 = it says nothing
  bool only_slows = true;  // else it may have made the run look faster as well
  std::string what;
};

// What makes one run's mean rate doubtful beyond the scatter of its rounds. `logs` are the logarithms of its
// rounds' rates as they are compared, so that a change of the machine that calibration took out is none:
//
//   drift            half of the change from first to last round
//   foreign load     cores others kept busy / cores of the machine; stolen by the hypervisor likewise
//   CPU quota        share of the time that it stopped the process
//   a slowed GPU     what its clock lost; one that others used says nothing
std::vector<Doubt> doubts(const measure::RunSamples& run, std::span<const double> logs, int machine_cores);

}  // namespace dtrain::stats
