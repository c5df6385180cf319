#include "cli/session.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "backend/devices.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/machine.hpp"
#include "cli/session_memory.hpp"
#include "cli/side_by_side.hpp"
#include "cli/training_flags.hpp"
#include "comm/communicator.hpp"
#include "comm/mpi/exchange.hpp"
#include "kernels/optimizer.hpp"
#include "model/find_model.hpp"
#include "model/flops.hpp"
#include "report/files.hpp"
#include "stats/summary.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::cli {

namespace {

namespace fs = std::filesystem;

// Of all processes of a job the chief speaks.
void warn(Session& session, const std::string& warning) {
  session.warnings.push_back(warning);
  if (!session.job.follows()) log_warning(warning);
}

// A file that is written later: its folder must take files, and it must not be a folder itself.
void require_writable_file(const std::string& path, const char* flag) {
  if (path.empty()) return;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw environment_error(fmt::format("{} {}: is a folder, where a file is to be written", flag, path),
                            fmt::format("give {} the name of a file", flag));
  }
  const fs::path parent = fs::path(path).parent_path();
  try {
    require_writable_directory(parent.empty() ? "." : parent);
  } catch (const Error& problem) {
    throw environment_error(fmt::format("{} {}: {}", flag, path, problem.what()),
                            fmt::format("give {} a file in a folder that this user can write to", flag));
  }
}

void open_all_outputs(const config::Options& options) {
  report::open_outputs(options.out, options.formats);
  require_writable_file(options.trace, "--trace");
  require_writable_file(options.checkpoint, "--checkpoint");
}

void fill_in(config::Options& options, const config::Plan& plan) {
  const auto& largest = plan.runs.back();
  options.scaling = plan.scaling;
  if (options.replicas.empty()) options.replicas = {largest.replicas};
  if (!options.batch_size && !options.global_batch) options.batch_size = config::default_batch_size;
}

bool share_gpus(const config::RunPlan& run) { return run.simulated && !run.devices.empty(); }

void choose_communicator(Session& session) {
  if (session.inventory.device == "tpu") return;  // sums are part of the compiled step
  const bool share = std::ranges::any_of(session.plan.runs, share_gpus);
  const bool spans = std::ranges::any_of(
      session.plan.runs, [](const auto& run) { return !run.workers.empty() && run.workers.back() != 0; });
  const auto choose = [&](const std::string& asked, bool spans_workers) {
    return comm::choose_communicator({.asked = asked,
                                      .device = session.inventory.device,
                                      .share_devices = share,
                                      .spans_workers = spans_workers,
                                      .started_by_mpi = comm::started_by_mpi()});
  };
  session.local_communicator = choose(spans ? "auto" : session.options.comm, false);
  session.options.comm = spans ? choose(session.options.comm, true) : session.local_communicator;
}

// What has been built for CPU replicas alone.
void require_cpu_for_new_ways(const Session& session) {
  if (session.inventory.device == "cpu") return;
  const std::string advice = "use --device cpu, or leave it out";
  if (session.options.compress != "none") {
    throw usage_error(
        fmt::format("--compress {} is for CPU replicas, and these are on GPUs", session.options.compress),
        advice);
  }
  if (!session.job.alone()) {
    throw usage_error("GPUs of several processes cannot train together yet: each process drives its own",
                      "use one process for the GPUs of a machine (--strategy mirrored), or --device cpu");
  }
}

void require_device_of_strategies(const Session& session) {
  const std::string& device = session.inventory.device;
  for (const auto& run : session.plan.runs) {
    if (strategy::strategies().at(run.strategy).value->runs_on(device)) continue;
    std::vector<std::string> others;
    for (const auto& name : strategy::strategies().names()) {
      if (strategy::strategies().at(name).value->runs_on(device)) others.push_back(name);
    }
    throw usage_error(fmt::format("--strategy {} does not run on --device {}", run.strategy, device),
                      fmt::format("there are, for this device: {}", join(others, ", ")));
  }
}

// Workers that hold ranks of a run, then the servers it uses.
std::vector<int> members_of(const Session& session, const config::RunPlan& run) {
  if (session.job.alone()) return {};
  std::vector<int> members = run.workers;
  members.erase(std::ranges::unique(members).begin(), members.end());
  if (!strategy::strategies().at(run.strategy).value->uses_servers()) return members;
  for (const auto& peer : session.job.member->peers()) {
    if (peer.role == "ps") members.push_back(peer.rank);
  }
  return members;
}

void require_enough_images(const Session& session) {
  const auto& run = session.plan.runs.back();
  const std::size_t images = session.data.train->size();
  if (static_cast<std::size_t>(run.global_batch) <= images) return;
  const std::size_t per_replica =
      images / static_cast<std::size_t>(run.replicas * session.options.accumulate);
  throw usage_error(fmt::format("a step of {} images is more than the {} images of {}", run.global_batch,
                                images, session.data.train->name()),
                    session.options.global_batch
                        ? fmt::format("use --global-batch {} or less", images)
                        : fmt::format("use --batch-size {} or less", std::max<std::size_t>(per_replica, 1)));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

int shares_of_strategy(const config::Options& options, int replicas) {
  return strategy::strategies().at(options.strategy).value->shares(options, replicas);
}

namespace {

// A strategy that has no other device than a TPU is an answer to --device auto.
std::string device_of(const config::Options& options) {
  if (options.device != "auto") return options.device;
  const auto* entry = strategy::strategies().find(options.strategy);
  if (entry == nullptr || entry->value->runs_on("cpu") || entry->value->runs_on("cuda")) return "auto";
  return "tpu";
}

void look_around(Session& session, const config::Options& options) {
  const backend::BackendConfig config{.pjrt_plugin = options.pjrt_plugin};
  session.inventory = backend::find_devices(device_of(options), config);
  session.backend = backend::backend_for(session.inventory.device, config);
  if (!session.job.alone()) share_inventory(session.job, session.inventory, options.timeout);
}

void take_all_strategies(Session& session, config::Options& options) {
  SideBySide chosen = choose_strategies(options, session.job, session.inventory.device);
  for (const auto& reason : chosen.left_out) warn(session, "left out of --strategy all: " + reason);
  if (chosen.strategies.empty()) {
    throw usage_error("--strategy all: no strategy can do what the other flags ask for",
                      "the warnings above say why; leave a flag out, or name one strategy");
  }
  options.side_by_side = std::move(chosen.strategies);
}

// What only the model tells: whether it can be cut or split over so many devices.
void leave_out_impossible(Session& session) {
  const auto is_impossible = [&](const config::RunPlan& run) {
    try {
      replica_of(session, run, 0);
      return false;
    } catch (const Error& error) {
      warn(session, fmt::format("left out of --strategy all: {}: {}", run.id, error.what()));
      return true;
    }
  };
  std::erase_if(session.plan.runs, is_impossible);
}

// Of all processes the chief measures.
void measure_ahead(Session& session) {
  if (!session.job.follows()) {
    for (const auto& run : session.plan.runs) {
      const auto& driver = strategy::strategies().at(run.strategy).value;
      driver->measure_ahead(session.options, *session.model, *session.backend);
    }
  }
  if (!session.job.alone()) share_layer_costs(session.job, session.options, session.options.timeout);
}

// Everything that may be wrong is found out here.
void prepare(Session& session, config::Options options, MakePlan make_plan) {
  const bool side_by_side = options.strategy == all_strategies;
  if (!side_by_side) {
    refuse_flags_of_others(options);
    strategy::strategies().at(options.strategy).value->check(options);
  }
  look_around(session, options);
  if (side_by_side) take_all_strategies(session, options);
  session.plan = make_plan(options, session.inventory, shares_of_strategy);
  fill_in(options, session.plan);
  session.options = std::move(options);
  require_cpu_for_new_ways(session);
  choose_communicator(session);
  session.exact = session.options;
  session.exact.compress = "none";
  session.exact.sync_every = 1;
  session.exact.updates = config::Updates::sync;
  session.exact.staleness.reset();

  for (const auto& note : session.backend->check_precision(session.options.precision)) warn(session, note);
  session.model = std::make_shared<const model::Model>(model::find_model(session.options.model));
  require_device_of_strategies(session);
  if (side_by_side) leave_out_impossible(session);
  measure_ahead(session);
  require_memory(session);
  session.data = datasets::open_cifar10(session.options.data, session.options.cache, session.options.seed);
  require_enough_images(session);
  if (!session.options.dry_run && !session.job.follows() && !session.job.place.evaluator)
    open_all_outputs(session.options);

  if (session.options.device == "auto" && session.inventory.device == "cpu") {
    warn(session, session.inventory.device_reason);
  }
  if (!session.data.note.empty()) warn(session, session.data.note);
  for (const auto& note : session.plan.notes) warn(session, note);
  const std::string unused = bucket_flags_without_effect(session.options);
  if (!unused.empty() && !session.job.place.evaluator) warn(session, unused);
  for (const auto& note : session.job.place.notes) {
    if (session.job.alone()) warn(session, note);
  }
  if (session.options.sync_every > 1 && !session.options.checkpoint.empty()) {
    warn(
        session,
        "with --sync-every a checkpoint holds averaged weights and the optimizer state of rank 0: a run that "
        "goes on from it does not repeat what this one does");
  }
  if (session.job.alone()) return;
  report::Result planned = start_result(session, "");
  planned.dataset.checksum = session.data.train->checksum();
  require_same_work(session.job, planned, session.options.rendezvous_timeout);
}

}  // namespace

namespace {

// An evaluator has one replica and nobody to exchange with. It writes no results.
config::Options alone_with(config::Options options) {
  options.strategy = "single";
  options.replicas = {1};
  options.compress = "none";
  options.sync_every = 1;
  options.outer_momentum = 0.0;
  options.updates = config::Updates::sync;
  return options;
}

}  // namespace

Session open_session(config::Options options, MakePlan make_plan) {
  Session session;
  session.job = open_job(options, *strategy::strategies().at(leading_strategy(options)).value);
  if (session.job.place.evaluator) options = alone_with(std::move(options));
  if (session.job.alone()) {
    prepare(session, std::move(options), make_plan);
    return session;
  }
  try {
    prepare(session, std::move(options), make_plan);
  } catch (const JobEnded&) {
    throw;
  } catch (const Error& error) {
    session.job.member->fail(session.job.member->rank(), fmt::format("failed: {}", error.what()));
    throw;
  }
  return session;
}

int steps_per_epoch(const Session& session, const config::RunPlan& run) {
  const auto images = static_cast<std::int64_t>(session.data.train->size());
  const std::int64_t remainder = images % run.global_batch != 0 ? 1 : 0;
  const bool keep = session.options.last_batch == config::LastBatch::keep;
  return static_cast<int>(images / run.global_batch + (keep ? remainder : 0));
}

train::WorldConfig world_config(const Session& session, const config::RunPlan& run,
                                std::int64_t total_steps) {
  train::WorldConfig world;
  world.options = run.exact ? &session.exact : &session.options;
  world.plan = run;
  world.model = session.model;
  world.backend = session.backend;
  world.strategy = strategy::strategies().at(run.strategy).value;
  world.members = members_of(session, run);
  world.member = session.job.member.get();
  world.leader = session.job.leader;
  world.tls = tls_files(session.options);
  world.communicator = world.members.size() > 1 ? session.options.comm : session.local_communicator;
  world.data = session.data;
  world.schedule = train::schedules()
                       .at(session.options.schedule)
                       .value({.peak = session.options.learning_rate,
                               .total_steps = total_steps,
                               .warmup_steps = std::llround(session.options.warmup_epochs *
                                                            steps_per_epoch(session, run))});
  return world;
}

namespace {

std::size_t element_bytes(config::Precision precision) {
  return precision == config::Precision::bf16 || precision == config::Precision::fp16 ? 2 : 4;
}

// What a replica is asked for, and what its share of the hardware can give at most.
void add_rooflines(report::ModelInfo& info, const Session& session,
                   const std::vector<backend::DeviceInfo>& devices) {
  const auto& options = session.options;
  const std::size_t element = element_bytes(options.precision);
  const int states = kernels::optimizers().at(options.optimizer).value.states;
  info.training_flops_per_image = model::training_flops(*session.model);
  info.training_bytes_per_image = model::training_bytes(*session.model, element);
  info.update_bytes = model::update_bytes(*session.model, element, states);
  if (devices.empty()) return;
  const int cores = session.inventory.device == "cpu" ? options.threads_per_replica : 1;
  info.peak_flops_per_replica = devices.front().peak.at(options.precision) * cores;
  info.peak_bytes_per_replica = devices.front().bytes_per_second;
}

}  // namespace

report::Result start_result(const Session& session, const std::string& command_line) {
  report::Result result;
  result.created = utc_now();
  result.command = command_line;
  result.build = build_info();
  result.libraries = session.backend->libraries();
  const auto devices = session.backend->devices();
  result.machine = describe_machine(devices);
  result.machine.driver = session.backend->driver();
  result.environment = config::recorded_environment();
  result.options = session.options;
  result.device = session.inventory.device;
  result.device_reason = session.inventory.device_reason;
  result.scaling = session.plan.scaling;
  result.cluster = describe(session.job);
  result.dataset = {session.data.train->name(), session.data.train->size(), ""};
  result.model.name = session.model->name;
  result.model.fingerprint = model::fingerprint(*session.model);
  result.model.parameters = session.model->parameter_count;
  add_rooflines(result.model, session, devices);
  result.model.batch_statistics = session.model->has_batch_statistics();
  result.warnings = session.warnings;
  return result;
}

void summarise(report::Result& result) {
  result.summary = stats::summarise({.samples = &result.samples,
                                     .scaling = result.scaling,
                                     .training_flops_per_image = result.model.training_flops_per_image,
                                     .peak_flops_per_replica = result.model.peak_flops_per_replica,
                                     .training_bytes_per_image = result.model.training_bytes_per_image,
                                     .update_bytes = result.model.update_bytes,
                                     .peak_bytes_per_replica = result.model.peak_bytes_per_replica});
}

void finish_result(report::Result& result, const Session& session) {
  result.dataset.checksum = session.data.train->checksum();
  summarise(result);
}

}  // namespace dtrain::cli
