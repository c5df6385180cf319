#include "predict/law.hpp"

#include <fmt/format.h>

#include <bit>

#include "comm/gloo/algorithms.hpp"

namespace dtrain::predict {

namespace {

double doublings(int members) {
  return members <= 1 ? 0.0 : std::bit_width(static_cast<unsigned>(members - 1));
}
double share(int members, double bytes) { return 2.0 * (members - 1) / members * bytes; }

LevelCost ring_cost(int members, double bytes) { return {2.0 * (members - 1), share(members, bytes)}; }

LevelCost tree_cost(int members, double bytes) {
  return {2.0 * doublings(members), 2.0 * doublings(members) * bytes};
}

// A member beyond the largest power of two hands all of its data over and gets all of it back.
LevelCost halving_doubling_cost(int members, double bytes) {
  const bool power = std::has_single_bit(static_cast<unsigned>(members));
  return {2.0 * doublings(members), power ? share(members, bytes) : 2.0 * bytes};
}

LevelCost shared_memory_cost(int, double bytes) { return {1.0, 2.0 * bytes}; }
LevelCost sum_by_one_cost(int members, double bytes) { return {1.0, 2.0 * members * bytes}; }

LevelCost gloo_cost(int members, double bytes) {
  const auto whole = static_cast<std::size_t>(bytes);
  return comm::choose_gloo_algorithm(whole, members) == "halving_doubling"
             ? halving_doubling_cost(members, bytes)
             : ring_cost(members, bytes);
}

}  // namespace

LevelLaw ring() { return {"ring", &ring_cost}; }
LevelLaw tree() { return {"tree", &tree_cost}; }
LevelLaw halving_doubling() { return {"halving and doubling", &halving_doubling_cost}; }
LevelLaw shared_memory() { return {"shared memory", &shared_memory_cost}; }
LevelLaw sum_by_one() { return {"sum by one thread", &sum_by_one_cost}; }
LevelLaw as_gloo_chooses() { return {"ring or halving and doubling, as Gloo chooses by size", &gloo_cost}; }

Columns Law::columns(const Placement& placement, double bytes, double sent_share, double load) const {
  Columns columns{};
  if (placement.workers > 1) {
    const LevelCost among = spanning.cost(placement.workers, bytes * sent_share);
    columns[0] = among.messages;
    columns[1] = among.bytes;
  }
  if (placement.per_worker() > 1) {
    const LevelCost within = local.cost(placement.per_worker(), bytes);
    columns[2] = within.messages * load;
    columns[3] = within.bytes * load;
  }
  return columns;
}

std::string Law::name(bool has_local, bool has_spanning) const {
  if (!has_spanning) return local.name;
  if (!has_local) return spanning.name;
  return fmt::format("hierarchical: {} within a worker, {} among workers", local.name, spanning.name);
}

}  // namespace dtrain::predict
