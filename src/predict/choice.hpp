#pragma once

#include <string>
#include <vector>

#include "predict/step_model.hpp"

namespace dtrain::predict {

// A law, held against every measured N by the model that the other N give.
struct LeaveOneOut {
  Law law;
  std::vector<double> predicted;  // seconds, by measured N
  double error = 0.0;             // root mean square of log(predicted / measured), N = 1 left out
  double worst = 0.0;             // the largest of them
};

struct Choice {
  LeaveOneOut best;
  std::vector<LeaveOneOut> others;  // whose errors are not clearly larger
  std::string why;                  // in words that hold for the errors above
};

// The law with the smallest error; where several are about as good, the one that the communicator is known to
// use.
Choice choose_law(const Setup& setup, const ExpectedMaximum& maximum,
                  const std::vector<Observation>& observations);

}  // namespace dtrain::predict
