#include "dtrain/group.hpp"

#include "comm/exchange.hpp"
#include "comm/spanning_group.hpp"

namespace dtrain {

namespace {

std::unique_ptr<comm::LocalGroup> make_spanning_group(const train::WorldConfig& config,
                                                      const SharedProgress& progress) {
  const config::Options& options = *config.options;
  std::vector<int> members;
  std::vector<int> process_of;
  for (const int worker : config.plan.workers) {
    if (members.empty() || members.back() != worker) members.push_back(worker);
    process_of.push_back(static_cast<int>(members.size()) - 1);
  }
  auto exchange = comm::exchanges()
                      .at(config.communicator)
                      .value({.member = config.member,
                              .members = members,
                              .name = config.name,
                              .algorithm = options.allreduce,
                              .timeout = options.timeout,
                              .busy_cores = config.plan.simulated,
                              .progress = [progress] { return progress->load(); }});
  return comm::make_spanning_group(std::move(exchange), {.process_of = process_of,
                                                         .compress = options.compress,
                                                         .seed = options.seed,
                                                         .oversubscribed = config.plan.simulated,
                                                         .timeout = options.timeout,
                                                         .on_start = [member = config.member, progress] {
                                                           member->announce(++*progress);
                                                         }});
}

}  // namespace

std::unique_ptr<comm::LocalGroup> make_group(const train::WorldConfig& config,
                                             const SharedProgress& progress) {
  if (!config.strategy->uses_collective()) return nullptr;
  if (config.members.size() > 1) return make_spanning_group(config, progress);
  const comm::LocalGroupConfig local{.size = config.plan.replicas, .oversubscribed = config.plan.simulated};
  const config::Options& options = *config.options;
  if (options.compress != "none") {
    return comm::make_compressed_local_group(local, options.compress, options.seed);
  }
  return comm::local_communicators().at(config.communicator).value(local);
}

}  // namespace dtrain
