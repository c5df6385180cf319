#include "config/slurm.hpp"

#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/address.hpp"
#include "config/launchers.hpp"

namespace dtrain::config {

namespace {

// SLURM numbers steps that are not a set of tasks (a batch script, a shell) from here up.
constexpr std::uint64_t first_special_step = 4'294'967'280U;
constexpr std::size_t most_counts = 65536;

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void malformed(const std::string& list) {
  throw usage_error(fmt::format("'{}' is not a list as SLURM writes it", list),
                    "let srun set the variables, or give --rendezvous host:port");
}

// "01-03" within "node[01-03]"; the first number's width is kept.
void expand_range(const std::string& prefix, const std::string& range, const std::string& list,
                  std::size_t limit, std::vector<std::string>& nodes) {
  const auto dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const auto from = number<std::uint32_t>(first);
  const auto to = dash == std::string::npos ? from : number<std::uint32_t>(range.substr(dash + 1));
  if (!from || !to || *to < *from) malformed(list);
  for (std::uint64_t i = *from; i <= *to && nodes.size() < limit; ++i) {
    nodes.push_back(fmt::format("{}{:0{}}", prefix, i, first.size()));
  }
}

std::optional<std::string> first_of(const EnvironmentLookup& lookup,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = lookup(name)) return value;
  }
  return std::nullopt;
}

// Inside an allocation but outside a step the variables describe the allocation, not this process.
bool inside_step(const EnvironmentLookup& lookup) {
  const auto text = first_of(lookup, {"SLURM_STEP_ID", "SLURM_STEPID"});
  const auto id = text ? number<std::uint64_t>(*text) : std::nullopt;
  return id && *id < first_special_step;
}

int slurm_port(const EnvironmentLookup& lookup) {
  if (const auto reserved = lookup("SLURM_STEP_RESV_PORTS")) {
    const auto port = number<int>(std::string_view(*reserved).substr(0, reserved->find_first_of("-,")));
    if (!port || *port < 1 || *port > 65535) malformed(*reserved);
    return *port;
  }
  return derived_port(first_of(lookup, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or("") + "." +
                      first_of(lookup, {"SLURM_STEP_ID", "SLURM_STEPID"}).value_or(""));
}

void find_rendezvous(LaunchEnvironment& place, const EnvironmentLookup& lookup) {
  if (const auto master = read_master(lookup)) {
    place.rendezvous = *master;
    return;
  }
  const auto list = first_of(lookup, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const auto nodes = list ? expand_nodes(*list, 2) : std::vector<std::string>();
  const bool one_node = nodes.size() == 1 || place.local_world == place.world;
  if (one_node) place.rendezvous = join_address("127.0.0.1", slurm_port(lookup));
  if (nodes.size() > 1 && !one_node) place.rendezvous = join_address(nodes.front(), slurm_port(lookup));
}

// How many of the step's tasks are on this node.
std::optional<int> tasks_here(const EnvironmentLookup& lookup) {
  const auto list = first_of(lookup, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const auto node = lookup("SLURM_NODEID");
  if (!list || !node) return std::nullopt;
  const auto counts = expand_counts(*list);
  const auto index = static_cast<std::size_t>(read_count("SLURM_NODEID", *node));
  if (index >= counts.size()) return std::nullopt;
  return counts[index];
}

}  // namespace

std::vector<std::string> expand_nodes(const std::string& list, std::size_t limit) {
  std::vector<std::string> nodes;
  std::size_t at = 0;
  while (at < list.size() && nodes.size() < limit) {
    const auto stop = std::min(list.find_first_of(",[", at), list.size());
    const std::string prefix = list.substr(at, stop - at);
    if (stop == list.size() || list[stop] == ',') {
      if (prefix.empty()) malformed(list);
      nodes.push_back(prefix);
      at = stop + 1;
      continue;
    }
    const auto close = list.find(']', stop);
    if (close == std::string::npos || (close + 1 < list.size() && list[close + 1] != ',')) malformed(list);
    for (const auto& range : split(list.substr(stop + 1, close - stop - 1), ',')) {
      expand_range(prefix, range, list, limit, nodes);
    }
    at = close + 2;
  }
  if (nodes.empty()) malformed(list);
  return nodes;
}

std::vector<int> expand_counts(const std::string& list) {
  std::vector<int> counts;
  for (const auto& part : split(list, ',')) {
    const auto bracket = part.find("(x");
    const auto count = number<int>(part.substr(0, bracket));
    auto times = std::optional<std::size_t>(1);
    if (bracket != std::string::npos) {
      if (part.back() != ')') malformed(list);
      times = number<std::size_t>(part.substr(bracket + 2, part.size() - bracket - 3));
    }
    if (!count || !times || *times > most_counts || counts.size() > most_counts) malformed(list);
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

std::optional<Claim> read_slurm(const Traces& traces) {
  const auto& lookup = traces.lookup;
  if (!first_of(lookup, {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"})) return std::nullopt;
  if (!inside_step(lookup)) {
    traces.notes.emplace_back(
        "SLURM variables without a job step (SLURM_STEP_ID) describe the allocation, not this process, and "
        "do not "
        "count: as far as they go it is a single process; start it with srun to use them");
    return std::nullopt;
  }
  const bool step = lookup("SLURM_STEP_NUM_TASKS").has_value();
  auto claim = read_counts(
      {"SLURM", "SLURM_PROCID", step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
      lookup);
  if (!claim) return std::nullopt;
  claim->place.local_world = tasks_here(lookup);
  find_rendezvous(claim->place, lookup);
  return claim;
}

}  // namespace dtrain::config
