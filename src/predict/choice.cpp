#include "predict/choice.hpp"

#include <cmath>

namespace dtrain::predict {

namespace {

constexpr double as_good = 0.1;  // difference of errors that three or four points cannot tell

LeaveOneOut leave_one_out(const Setup& setup, const Law& law, const ExpectedMaximum& maximum,
                          const std::vector<Observation>& observations) {
  LeaveOneOut result{.law = law, .predicted = {}, .error = 0.0, .worst = 0.0};
  double squares = 0.0;
  int counted = 0;
  for (std::size_t left = 0; left < observations.size(); ++left) {
    std::vector<Observation> rest = observations;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left));
    const Observation& out = observations[left];
    const StepModel model(setup, law, maximum, rest);
    result.predicted.push_back(model.measured_step(setup, out.placement, out.replica_images).step());
    if (out.placement.replicas == 1) continue;
    const double error = std::log(std::max(result.predicted.back(), 1e-12) / out.parts.step());
    squares += error * error;
    ++counted;
    result.worst = std::max(result.worst, std::abs(error));
  }
  result.error = std::sqrt(squares / std::max(counted, 1));
  return result;
}

bool with_less_error(const LeaveOneOut& a, const LeaveOneOut& b) { return a.error < b.error; }

std::vector<Law> candidates(const Setup& setup, const std::vector<Observation>& observations) {
  bool local = false;
  bool spanning = setup.link.has_value();
  for (const auto& o : observations) {
    local = local || o.placement.per_worker() > 1;
    spanning = spanning || o.placement.workers > 1;
  }
  std::vector<Law> laws;
  for (const auto& within : setup.local_laws) {
    for (const auto& among : setup.spanning_laws) {
      laws.push_back({within, among});
      if (!spanning) break;
    }
    if (!local) break;
  }
  return laws;
}

std::string why(const Setup& setup, const Choice& choice, bool only, bool by_knowledge) {
  if (only) return "what the communicator does";
  if (choice.others.empty()) {
    return by_knowledge ? "what the communicator is known to do, and no other law fits about as well"
                        : "it predicts the N that are left out best";
  }
  if (!by_knowledge) return "it predicts the N that are left out best, but others do nearly as well";
  const auto next = std::min_element(choice.others.begin(), choice.others.end(), with_less_error);
  return fmt::format(
      "what the communicator is known to do, {}: N that are left out are off by {:.1f} %, by {} {:.1f} %",
      choice.best.error <= next->error ? "and others fit nearly as well"
                                       : "taken because it fits about as well as others",
      100.0 * choice.best.error, next->law.name(setup.has_local(), setup.has_spanning()),
      100.0 * next->error);
}

}  // namespace

Choice choose_law(const Setup& setup, const ExpectedMaximum& maximum,
                  const std::vector<Observation>& observations) {
  std::vector<LeaveOneOut> all;
  for (const Law& law : candidates(setup, observations)) {
    all.push_back(leave_one_out(setup, law, maximum, observations));
  }
  const double least = std::min_element(all.begin(), all.end(), with_less_error)->error;
  // The communicator's own law comes first among the candidates.
  const auto chosen = setup.law_known && all.front().error <= least + as_good
                          ? all.begin()
                          : std::min_element(all.begin(), all.end(), with_less_error);
  Choice choice{.best = *chosen, .others = {}, .why = {}};
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it != chosen && it->error <= least + as_good) choice.others.push_back(*it);
  }
  choice.why = why(setup, choice, all.size() == 1, chosen == all.begin() && setup.law_known);
  return choice;
}

}  // namespace dtrain::predict
