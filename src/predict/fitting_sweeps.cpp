#include "predict/fitting_sweeps.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/communicator.hpp"

namespace dtrain::predict {

namespace {

using Names = std::vector<std::string>;

bool holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Between replicas of a process. Between workers is what --comm names where there are some.
Names used_within(const report::Result& result) {
  const auto* known = comm::communicators().find(result.options.comm);
  if (known != nullptr && known->value.in_process) return {known->name};
  if (result.device == "cuda") return {"nccl", "cuda_local"};
  return {"shared_memory"};
}

Names used_among(const report::Result& result) {
  if (result.options.comm != "auto") return {result.options.comm};
  return result.device == "cuda" ? Names{"nccl"} : Names{"gloo", "mpi"};
}

void require_same_communicator(const Sweep& sweep, const report::Result& result, bool spans) {
  const std::string advice = "sweep with the communicator of the result, or leave this file out";
  if (sweep.workers > 1 && !spans) {
    throw data_error(fmt::format("{}: workers: is {}, and the result's replicas were of one process",
                                 sweep.file, sweep.workers),
                     advice);
  }
  const Names used = sweep.workers > 1 ? used_among(result) : used_within(result);
  if (holds(used, sweep.communicator)) return;
  throw data_error(fmt::format("{}: communicator: is '{}', and the result was measured with {}", sweep.file,
                               sweep.communicator, join(used, " or ")),
                   advice);
}

bool same_measurement(const Sweep& a, const Sweep& b) {
  return a.communicator == b.communicator && a.compress == b.compress && a.workers == b.workers &&
         a.ranks == b.ranks && a.sizes == b.sizes;
}

}  // namespace

std::vector<Sweep> fitting_sweeps(const std::vector<Sweep>& sweeps, const report::Result& result, bool spans,
                                  std::vector<std::string>& notes) {
  std::vector<Sweep> fitting;
  for (const auto& sweep : sweeps) {
    require_same_communicator(sweep, result, spans);
    const auto again = std::find_if(fitting.begin(), fitting.end(),
                                    [&](const Sweep& other) { return same_measurement(sweep, other); });
    if (sweep.ranks == 1) {
      notes.push_back(sweep.file + ": not used, for one rank has nobody to exchange with");
    } else if (sweep.compress != "none") {
      notes.push_back(sweep.file + ": not used, for it was compressed");
    } else if (again != fitting.end()) {
      notes.push_back(sweep.file + (sweep.file == again->file
                                        ? ": given twice, and counted once"
                                        : ": not used, for it is the same measurement as " + again->file));
    } else {
      fitting.push_back(sweep);
    }
  }
  const bool among =
      std::any_of(fitting.begin(), fitting.end(), [](const Sweep& s) { return s.workers > 1; });
  if (spans && !among && !fitting.empty()) {
    notes.emplace_back("the sweeps of one process are not used: they say nothing of the link among workers");
    fitting.clear();
  }
  return fitting;
}

}  // namespace dtrain::predict
