#include "cli/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <set>

#include "base/build_info.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/interrupt.hpp"
#include "comm/mpi/exchange.hpp"

namespace dtrain::cli {

namespace {

std::vector<int> all_ranks(const cluster::Member& member) {
  std::vector<int> ranks(static_cast<std::size_t>(member.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Processes of one build understand each other's bytes.
std::string build_name() {
  const BuildInfo build = build_info();
  return fmt::format("dtrain {} {} ({}, {})", build.version, build.commit, build.compiler, build.build_type);
}

std::string token() {
  const char* value = std::getenv("DTRAIN_JOB_TOKEN");
  return value == nullptr ? "" : value;
}

// Where mpirun started the processes and nobody says where to meet, MPI itself tells them.
void meet_by_mpi(cluster::JobConfig& job) {
  if (!comm::started_by_mpi()) {
    throw usage_error(fmt::format("{} does not tell where its processes meet", job.place.source),
                      "give --rendezvous host:port of rank 0, or a TF_CONFIG");
  }
  const Deadline deadline = Deadline::in(job.rendezvous_timeout);
  if (job.place.rank != 0) {
    job.rendezvous = comm::broadcast_by_mpi("", deadline);
    return;
  }
  char host[256] = "127.0.0.1";
  if (job.place.local_world.value_or(0) != job.place.world) ::gethostname(host, sizeof(host) - 1);
  job.rendezvous = fmt::format("{}:0", host);
  job.publish = [deadline](const std::string& address) { comm::broadcast_by_mpi(address, deadline); };
}

bool holds_replicas(const cluster::Peer& peer) { return peer.role != "ps"; }

// Ranks of the workers that share a kernel with this one, itself among them.
std::vector<int> neighbours(const cluster::Member& member) {
  const auto& peers = member.peers();
  const auto& self = peers.at(static_cast<std::size_t>(member.rank()));
  std::vector<int> ranks;
  for (const auto& peer : peers) {
    if (peer.boot == self.boot && holds_replicas(peer)) ranks.push_back(peer.rank);
  }
  return ranks;
}

// The part of `all` that the index-th of `count` takes; all of it where there is not one for each.
std::vector<int> part_of(const std::vector<int>& all, std::size_t index, std::size_t count) {
  if (all.size() < count) return all;
  const auto bound = [&](std::size_t i) {
    return all.begin() + static_cast<std::ptrdiff_t>(all.size() * i / count);
  };
  return {bound(index), bound(index + 1)};
}

config::WorkerInventory own_share(const cluster::Member& member, const config::Inventory& inventory) {
  const auto around = neighbours(member);
  const auto index = static_cast<std::size_t>(std::ranges::find(around, member.rank()) - around.begin());
  std::vector<int> gpus(static_cast<std::size_t>(inventory.device == "cuda" ? inventory.gpus : 0));
  std::iota(gpus.begin(), gpus.end(), 0);
  return {.host = member.peers().at(static_cast<std::size_t>(member.rank())).boot,
          .cores = part_of(inventory.cores, index, around.size()),
          .gpus = part_of(gpus, index, around.size())};
}

std::string pack(const config::WorkerInventory& worker, const std::string& device) {
  ByteWriter bytes;
  return bytes.put(device).put(worker.host).put(worker.cores).put(worker.gpus).bytes();
}

}  // namespace

cluster::TlsFiles tls_files(const config::Options& options) {
  return {options.tls_certificate, options.tls_key, options.tls_authority};
}

std::shared_ptr<cluster::Member> join_job(const config::LaunchEnvironment& place,
                                          const config::Options& options) {
  cluster::JobConfig config{.place = place,
                            .rendezvous = place.rendezvous,
                            .publish = {},
                            .rendezvous_timeout = options.rendezvous_timeout,
                            .timeout = options.timeout,
                            .token = token(),
                            .tls = tls_files(options),
                            .build = build_name()};
  // What a lost process leaves half sent is found out by those who wait for it, not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  const AtOnce at_once;
  if (config.rendezvous.empty()) meet_by_mpi(config);
  return cluster::join(config);
}

// Empty for a strategy that spans workers itself.
std::vector<std::string> spanning_instead_of(const strategy::Strategy& strategy) {
  std::vector<std::string> names;
  if (strategy.spans_workers()) return names;
  for (const auto& name : strategy::strategies().names()) {
    if (strategy::strategies().at(name).value->spans_workers()) names.push_back(name);
  }
  return names;
}

Job open_job(const config::Options& options, const strategy::Strategy& strategy) {
  Job job;
  job.place = config::read_launch_environment(config::process_environment(), options.cluster,
                                              spanning_instead_of(strategy));
  if (job.place.alone() || job.place.evaluator) return job;
  job.member = join_job(job.place, options);
  if (!job.follows()) job.leader = std::make_shared<train::Leader>(*job.member);
  return job;
}

void share_inventory(const Job& job, config::Inventory& inventory, Seconds timeout) {
  cluster::Member& member = *job.member;
  const auto mine = pack(own_share(member, inventory), inventory.device);
  const auto all = member.all_gather("inventory", mine, all_ranks(member), Deadline::in(timeout));
  for (const auto& peer : member.peers()) {
    if (!holds_replicas(peer)) continue;
    ByteReader reader(all.at(static_cast<std::size_t>(peer.rank)), "the inventory of " + peer.describe());
    const auto device = reader.get<std::string>();
    if (device != inventory.device) {
      throw usage_error(fmt::format("{} trains on {}, and {} on {}", member.peers().front().describe(),
                                    inventory.device, peer.describe(), device),
                        "give all workers the same --device");
    }
    config::WorkerInventory worker;
    worker.host = reader.get<std::string>();
    worker.cores = reader.get_all<int>();
    worker.gpus = reader.get_all<int>();
    inventory.workers.push_back(std::move(worker));
  }
}

void share_layer_costs(const Job& job, config::Options& options, Seconds timeout) {
  cluster::Member& member = *job.member;
  ByteWriter mine;
  mine.put(options.layer_costs);
  const auto all = member.all_gather("layer costs", mine.bytes(), all_ranks(member), Deadline::in(timeout));
  ByteReader chief(all.front(), "the layer costs of the chief");
  options.layer_costs = chief.get_all<double>();
}

namespace {

// What a process does for itself, and may do in its own way.
const std::set<std::string> own_affairs{"out", "format", "trace", "quiet", "checkpoint", "resume", "dry_run"};

std::string pack(const std::map<std::string, std::string>& values) {
  ByteWriter bytes;
  bytes.put(values.size());
  for (const auto& [key, value] : values) bytes.put(key).put(value);
  return bytes.bytes();
}

std::map<std::string, std::string> unpack(const std::string& bytes, const std::string& what) {
  ByteReader reader(bytes, what);
  std::map<std::string, std::string> values;
  const auto count = reader.get<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = reader.get<std::string>();
    values[key] = reader.get<std::string>();
  }
  return values;
}

std::string differences(const std::map<std::string, std::string>& one,
                        const std::map<std::string, std::string>& other) {
  std::vector<std::string> found;
  for (const auto& [key, value] : one) {
    const auto match = other.find(key);
    const std::string theirs = match == other.end() ? "nothing" : match->second;
    if (theirs != value) found.push_back(fmt::format("{} {} against {}", key, value, theirs));
  }
  return join(found, "; ");
}

}  // namespace

void require_same_work(const Job& job, const report::Result& planned, Seconds timeout) {
  cluster::Member& member = *job.member;
  auto values = report::config_values(planned);
  std::erase_if(values, [](const auto& entry) { return own_affairs.contains(entry.first); });
  // Not where its file lies.
  values["model"] = fmt::format("{} of layers {}", planned.model.name, planned.model.fingerprint);
  values["data set"] = fmt::format("{} of {} images, checksum {}", planned.dataset.name,
                                   planned.dataset.images, planned.dataset.checksum);
  const auto all = member.all_gather("work", pack(values), all_ranks(member), Deadline::in(timeout));
  const auto chief = unpack(all.front(), "the configuration of the chief");
  for (const auto& peer : member.peers()) {
    const auto theirs =
        unpack(all.at(static_cast<std::size_t>(peer.rank)), "the configuration of " + peer.describe());
    const std::string found = differences(chief, theirs);
    if (found.empty()) continue;
    throw usage_error(fmt::format("{} and {} were not asked for the same: {}",
                                  member.peers().front().describe(), peer.describe(), found),
                      "start all processes of a job with the same flags and the same data");
  }
}

void leave_job(const Job& job, Seconds timeout) {
  const bool sound = !job.member->loss();
  try {
    job.member->leave(Deadline::in(timeout));
    if (sound) comm::finish_mpi();
  } catch (const std::exception& error) {
    log_warning(fmt::format("leaving the job: {}", error.what()));
  }
}

report::ClusterInfo describe(const Job& job) {
  report::ClusterInfo info;
  info.launcher = job.place.source;
  if (job.alone()) return info;
  for (const auto& peer : job.member->peers()) {
    info.tasks.push_back({.role = peer.role,
                          .index = peer.index,
                          .address = peer.address,
                          .host = peer.host,
                          .joined_seconds = peer.joined_seconds});
  }
  return info;
}

}  // namespace dtrain::cli
