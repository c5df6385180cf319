#include "measure/samples.hpp"

namespace dtrain::measure {

double Staleness::mean() const {
  double sum = 0.0;
  double total = 0.0;
  for (std::size_t staleness = 0; staleness < counts.size(); ++staleness) {
    sum += static_cast<double>(staleness) * static_cast<double>(counts[staleness]);
    total += static_cast<double>(counts[staleness]);
  }
  return total > 0.0 ? sum / total : 0.0;
}

}  // namespace dtrain::measure
