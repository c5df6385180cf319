#include "config/launchers.hpp"

#include <charconv>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "config/address.hpp"
#include "config/cluster_spec.hpp"
#include "config/tf_config.hpp"

namespace dtrain::config {

namespace {

constexpr CountingVariables torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr CountingVariables open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr CountingVariables pmi{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// What tells a job of mpirun from others on the same host.
constexpr std::array mpi_jobs{"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID", "PMI_PORT"};

constexpr int first_derived_port = 20'000;
constexpr int derived_ports = 10'000;

std::optional<int> read_local(const char* variable, const EnvironmentLookup& lookup) {
  const auto text = variable == nullptr ? std::nullopt : lookup(variable);
  if (!text) return std::nullopt;
  return read_count(variable, *text);
}

void require_rank(const CountingVariables& names, const std::string& variables, int rank, int world) {
  if (world >= 1 && rank < world) return;
  throw usage_error(
      fmt::format("{}: there is no rank {} among {}", variables, rank, world),
      fmt::format("the rank must be below the number of processes; let {} set both, or unset them",
                  names.source));
}

// MPI can tell the address of rank 0 itself; where all processes are on one host, nobody need ask.
void find_rendezvous(Claim& claim, const EnvironmentLookup& lookup) {
  auto& place = claim.place;
  if (const auto master = read_master(lookup)) place.rendezvous = *master;
  if (!place.rendezvous.empty() || place.local_world != place.world) return;
  for (const char* variable : mpi_jobs) {
    if (const auto job = lookup(variable)) {
      place.rendezvous = join_address("127.0.0.1", derived_port(*job));
      return;
    }
  }
}

std::string flag_texts(const ClusterFlags& flags) {
  return fmt::format("--task-type {} --task-index {}", flags.task_type.empty() ? "worker" : flags.task_type,
                     flags.task_index.value_or(0));
}

}  // namespace

int read_count(const std::string& variable, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= 0) return value;
  throw usage_error(fmt::format("{}: '{}' is not a whole number of 0 or more", variable, text),
                    fmt::format("unset {}, or let the launcher set it", variable));
}

int derived_port(const std::string& job) {
  Hash hash;
  hash.add(std::span<const char>(job));
  return first_derived_port + static_cast<int>(hash.value() % derived_ports);
}

std::optional<Claim> read_counts(const CountingVariables& names, const EnvironmentLookup& lookup) {
  const auto rank = lookup(names.rank);
  const auto world = lookup(names.world);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world) {
    throw usage_error(fmt::format("{} is set but {} is not", rank ? names.rank : names.world,
                                  rank ? names.world : names.rank),
                      fmt::format("set both, as {} does, or neither", names.source));
  }
  Claim claim{fmt::format("{}={} {}={}", names.rank, *rank, names.world, *world), {}};
  auto& place = claim.place;
  place.source = names.source;
  place.rank = read_count(names.rank, *rank);
  place.world = read_count(names.world, *world);
  require_rank(names, claim.variables, place.rank, place.world);
  for (int i = 0; i < place.world; ++i) place.tasks.push_back({"worker", i, ""});

  place.local_rank = read_local(names.local_rank, lookup);
  place.local_world = read_local(names.local_world, lookup);
  if (place.local_rank && place.local_world) {
    require_rank(names,
                 fmt::format("{}={} {}={}", names.local_rank, *place.local_rank, names.local_world,
                             *place.local_world),
                 *place.local_rank, *place.local_world);
  }
  return claim;
}

std::optional<std::string> read_master(const EnvironmentLookup& lookup) {
  const auto host = lookup("MASTER_ADDR");
  const auto port = lookup("MASTER_PORT");
  if (!host && !port) return std::nullopt;
  if (!host || !port) {
    throw usage_error(fmt::format("{} is set but {} is not", host ? "MASTER_ADDR" : "MASTER_PORT",
                                  host ? "MASTER_PORT" : "MASTER_ADDR"),
                      "set both or neither");
  }
  const bool bare_v6 = host->find(':') != std::string::npos && !host->starts_with('[');
  std::string address = fmt::format("{}:{}", bare_v6 ? "[" + *host + "]" : *host, *port);
  if (const auto problem = why_no_address(address)) {
    throw usage_error(fmt::format("MASTER_ADDR={} MASTER_PORT={}: {}", *host, *port, *problem),
                      "set them to a host that rank 0 runs on and a port from 1 to 65535");
  }
  return address;
}

std::optional<Claim> read_flags(const Traces& traces) {
  const auto& flags = traces.flags;
  if (flags.worker_hosts.empty()) {
    if (flags.ps_hosts.empty() && flags.task_type.empty() && !flags.task_index) return std::nullopt;
    throw usage_error("--ps-hosts, --task-type and --task-index need --worker-hosts",
                      "list the addresses of all workers: --worker-hosts host:port,host:port");
  }
  ClusterSpec cluster("--worker-hosts and --ps-hosts");
  int index = 0;
  for (const auto& address : flags.worker_hosts) cluster.add("worker", index++, address);
  index = 0;
  for (const auto& address : flags.ps_hosts) cluster.add("ps", index++, address);
  if (!flags.task_index && flags.worker_hosts.size() + flags.ps_hosts.size() > 1) {
    throw usage_error("--worker-hosts lists a cluster, but nothing says which task this process is",
                      "give --task-type worker or ps and --task-index");
  }
  if (flags.task_type == "chief") {
    throw usage_error("--task-type chief: --worker-hosts lists no chief",
                      "worker 0 leads: use --task-type worker");
  }
  const std::string role = flags.task_type.empty() ? "worker" : flags.task_type;
  cluster.require_role(role, "--task-type");
  Claim claim{flag_texts(flags), cluster.place(role, flags.task_index.value_or(0))};
  claim.place.source = "flags";
  return claim;
}

std::optional<Claim> read_tf_config(const Traces& traces) {
  const auto text = traces.lookup("TF_CONFIG");
  if (!text) return std::nullopt;
  const ClusterPlace place = parse_tf_config(*text);
  return Claim{fmt::format("TF_CONFIG with task {} {}", place.role, place.index), place};
}

std::optional<Claim> read_torchrun(const Traces& traces) {
  auto claim = read_counts(torchrun, traces.lookup);
  if (!claim) return std::nullopt;
  const auto master = read_master(traces.lookup);
  if (!master) return claim;
  Address address = split_address(*master);
  if (traces.lookup("TORCHELASTIC_USE_AGENT_STORE") == "True" && claim->place.world > 1) {
    address.port += address.port < 65535 ? 1 : -1;
    traces.notes.push_back(
        fmt::format("torchrun's agent listens at {}, so rank 0 uses port {}", *master, address.port));
  }
  claim->place.rendezvous = join_address(address.host, address.port);
  return claim;
}

std::optional<Claim> read_open_mpi(const Traces& traces) {
  auto claim = read_counts(open_mpi, traces.lookup);
  if (claim) find_rendezvous(*claim, traces.lookup);
  return claim;
}

std::optional<Claim> read_pmi(const Traces& traces) {
  auto claim = read_counts(pmi, traces.lookup);
  if (claim) find_rendezvous(*claim, traces.lookup);
  return claim;
}

const Registry<ReadClaim>& launchers() {
  static const auto table = [] {
    Registry<ReadClaim> filled("launcher");
    filled.add("flags", "--worker-hosts, --ps-hosts, --task-type, --task-index", &read_flags);
    filled.add("tf_config", "TF_CONFIG", &read_tf_config);
    filled.add("torchrun", "RANK, WORLD_SIZE, MASTER_ADDR, ...", &read_torchrun);
    filled.add("openmpi", "OMPI_COMM_WORLD_RANK, ...", &read_open_mpi);
    filled.add("pmi", "PMI_RANK, PMI_SIZE, ...", &read_pmi);
    filled.add("slurm", "SLURM_PROCID, ... of a job step", &read_slurm);
    return filled;
  }();
  return table;
}

}  // namespace dtrain::config
