#include "strategy/parameter_server.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <random>

#include "base/error.hpp"
#include "parameter_server/server.hpp"

namespace dtrain::strategy {
namespace {

namespace ps = parameter_server;

// The smaller runs of a sweep have fewer workers to spare.
ps::TableConfig table_of(const RunContext& run) {
  const config::Options& options = *run.options;
  const int workers = run.plan->replicas;
  return {.name = run.name,
          .size = run.flat_size,
          .optimizer = options.optimizer,
          .workers = workers,
          .policy = {.async = options.updates == config::Updates::async,
                     .staleness = options.staleness,
                     .backups = std::min(options.backup_workers, workers - 1)}};
}

std::string site_key(const std::string& run, int server) {
  return fmt::format("parameter_server/{}/{}", run, server);
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

// The servers of a job say where they are, and with which token, through the member's values, which only the
// job can read.
std::vector<ps::Site> sites_of(const RunContext& run) {
  std::vector<ps::Site> sites;
  const Deadline deadline = Deadline::in(run.options->rendezvous_timeout);
  for (const cluster::Peer& peer : run.member->peers()) {
    if (peer.role != "ps") continue;
    const std::string said = run.member->get(site_key(run.name, peer.index), deadline);
    const std::size_t space = said.rfind(' ');
    sites.push_back({said.substr(0, space), said.substr(space + 1)});
  }
  if (sites.empty()) {
    throw usage_error(
        "--strategy parameter-server in a job of several processes needs parameter servers",
        "add ps tasks (--ps-hosts, \"ps\" in TF_CONFIG, dtrain launch --ps), or run one process");
  }
  return sites;
}

// The way of this process's ranks to the servers.
class Clients final : public Shared {
 public:
  explicit Clients(const RunContext& run)
      : config_(table_of(run)), tls_(run.tls), step_images_(run.plan->global_batch) {
    if (run.member == nullptr) {
      local_ = ps::make_local_servers(config_, run.options->servers);
    } else {
      sites_ = sites_of(run);
    }
  }

  // One a rank, which goes back with `leave`.
  ps::Client& join(int rank) {
    auto client = local_ ? local_->connect(rank) : ps::connect(sites_, config_, rank, tls_);
    const std::lock_guard lock(mutex_);
    if (aborted_) client->abort(*aborted_);
    return *(clients_[rank] = std::move(client));
  }

  void leave(int rank) {
    std::unique_ptr<ps::Client> leaving;
    const std::lock_guard lock(mutex_);
    leaving = std::exchange(clients_[rank], nullptr);
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = reason;
    if (local_) local_->abort(reason);
    for (const auto& [rank, client] : clients_) {
      if (client) client->abort(reason);
    }
  }

  int step_images() const { return step_images_; }

 private:
  ps::TableConfig config_;
  cluster::TlsFiles tls_;
  int step_images_;
  std::unique_ptr<ps::Local> local_;
  std::vector<ps::Site> sites_;
  std::mutex mutex_;
  std::optional<std::string> aborted_;
  std::map<int, std::unique_ptr<ps::Client>> clients_;
};

// Where a parameter server listens: for all runs that go on at the same time.
struct Listening {
  std::string token = random_token();
  std::unique_ptr<ps::Server> server;
};

// A parameter server's part in one run.
class Serving final : public Shared {
 public:
  explicit Serving(const RunContext& run) {
    const cluster::Peer& self = run.member->peers()[static_cast<std::size_t>(run.member->rank())];
    int servers = 0;
    for (const cluster::Peer& peer : run.member->peers()) servers += peer.role == "ps" ? 1 : 0;
    listening_ = run.serving ? std::static_pointer_cast<Serving>(run.serving)->listening_ : listen(run, self);
    table_ = table_of(run);
    listening_->server->open(table_, self.index, servers);
    run.member->set(site_key(run.name, self.index), listening_->server->address() + ' ' + listening_->token);
  }
  ~Serving() override {
    if (listening_) listening_->server->close(table_.name);
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  void abort(const std::string& reason) override { listening_->server->abort(reason); }

 private:
  static std::shared_ptr<Listening> listen(const RunContext& run, const cluster::Peer& self) {
    auto listening = std::make_shared<Listening>();
    const std::string address = self.address.empty() ? self.reached_at + ":0" : self.address;
    listening->server = ps::serve(address, {.token = listening->token, .tls = run.tls});
    return listening;
  }

  std::shared_ptr<Listening> listening_;
  ps::TableConfig table_;
};

// The numbers of the update are known before it happens elsewhere, so that `apply` comes first and only notes
// them.
class ParameterServerRank final : public RankStrategy {
 public:
  explicit ParameterServerRank(const RankContext& context)
      : context_(context), clients_(std::static_pointer_cast<Clients>(context.shared)) {
    if (context.replica->stream().device >= 0) {
      throw usage_error("--strategy parameter-server takes gradients of CPU replicas only",
                        "use --device cpu");
    }
    client_ = &clients_->join(context.rank);
    client_->initialise(context.replica->weights(), Deadline::in(context.options->rendezvous_timeout));
  }
  ~ParameterServerRank() override {
    if (client_ != nullptr) clients_->leave(context_.rank);
  }
  ParameterServerRank(const ParameterServerRank&) = delete;
  ParameterServerRank& operator=(const ParameterServerRank&) = delete;

  void before_step() override {}
  void bucket_ready(int, backend::DeviceToken) override {}
  void apply(const kernels::OptimizerStep& step) override { update_ = step; }
  bool synchronizes_last() const override { return true; }

  void synchronize() override {
    backend::Replica& replica = *context_.replica;
    push_ = client_->push_pull({.values = replica.gradients(),
                                .images = replica.result(0).count,
                                .step_images = clients_->step_images(),
                                .update = update_},
                               replica.weights(), Deadline::in(context_.timeout));
  }

  void rest() override { client_->rest(); }

  StepReport report() const override { return {.staleness = push_.staleness, .dropped = push_.dropped}; }
  std::optional<backend::StepOutcome> outcome() const override {
    return backend::StepOutcome{
        .own_finite = push_.own_finite, .applied = push_.finite, .weights_finite = push_.weights_finite};
  }
  std::uint64_t bytes_sent() const override { return client_->bytes_sent(); }

  void collect_state() override {
    const Deadline deadline = Deadline::in(context_.timeout);
    client_->read_weights(context_.replica->weights(), deadline);
    if (context_.rank != 0) return;
    for (int index = 0; index < states(); ++index) {
      client_->read_state(index, context_.replica->optimizer_state(index), deadline);
    }
  }

  void distribute_state() override {
    const Deadline deadline = Deadline::in(context_.timeout);
    std::vector<std::span<const float>> state;
    for (int index = 0; index < states(); ++index) {
      state.emplace_back(context_.replica->optimizer_state(index));
    }
    client_->write(context_.replica->weights(), state, deadline);
    if (context_.rank != 0) client_->read_weights(context_.replica->weights(), deadline);
  }

  bool only_enqueues() const override { return false; }

 private:
  int states() const { return kernels::optimizers().at(context_.options->optimizer).value.states; }

  RankContext context_;
  std::shared_ptr<Clients> clients_;
  ps::Client* client_ = nullptr;
  kernels::OptimizerStep update_;
  ps::Push push_;
};

class ParameterServer final : public Strategy {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return std::make_unique<ParameterServerRank>(context);
  }
  std::shared_ptr<Shared> share(const RunContext& run) const override {
    return std::make_shared<Clients>(run);
  }
  std::shared_ptr<Shared> serve(const RunContext& run) const override {
    return std::make_shared<Serving>(run);
  }
  void check(const config::Options& options) const override;
  int replicas_in_sync(const config::Options& options, int replicas) const override {
    return options.updates == config::Updates::async ? 1 : replicas;
  }
  bool uses_collective() const override { return false; }
  bool uses_servers() const override { return true; }
  bool communicates() const override { return true; }
  bool spans_workers() const override { return true; }
  int max_replicas() const override { return std::numeric_limits<int>::max(); }
};

void ParameterServer::check(const config::Options& options) const {
  const bool async = options.updates == config::Updates::async;
  const std::string backups = fmt::format("--backup-workers {}", options.backup_workers);
  if (options.sync_every > 1) {
    throw usage_error(
        fmt::format("--sync-every {} averages weights between replicas, and parameter servers have them in "
                    "one place",
                    options.sync_every),
        "leave --sync-every out, or use --strategy mirrored or multi-worker; --updates async --staleness S "
        "waits less too");
  }
  if (options.outer_momentum > 0.0) {
    throw usage_error(fmt::format("--outer-momentum {} belongs to --sync-every", options.outer_momentum),
                      "leave --outer-momentum out");
  }
  if (options.compress != "none") {
    throw usage_error(
        fmt::format("--compress {}: parameter servers take gradients as they are", options.compress),
        "leave --compress out, or use --strategy multi-worker");
  }
  if (options.staleness && !async) {
    throw usage_error(
        fmt::format("--staleness {} bounds asynchronous updates, and --updates is sync", *options.staleness),
        "add --updates async, or leave --staleness out");
  }
  if (options.backup_workers == 0) return;
  if (async) {
    throw usage_error(fmt::format("{} is for updates that wait, and --updates is async", backups),
                      "leave one of them out");
  }
  if (options.precision == config::Precision::fp16) {
    throw usage_error(
        fmt::format("{} does not go with --precision fp16: a replica whose gradients were dropped "
                    "would not know of the others' overflows",
                    backups),
        "use --precision bf16 or fp32");
  }
  if (options.last_batch == config::LastBatch::keep) {
    throw usage_error(
        fmt::format("{} does not go with --last-batch keep: an update is scaled by the images that "
                    "arrived of a whole batch",
                    backups),
        "use --last-batch drop");
  }
}

}  // namespace

std::shared_ptr<const Strategy> make_parameter_server() { return std::make_shared<ParameterServer>(); }

}  // namespace dtrain::strategy
