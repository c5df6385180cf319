#include "config/plan.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/placement.hpp"

namespace dtrain::config {

namespace {

constexpr const char* single_strategy = "single";

int all_devices(const Options& options, const Inventory& inventory) {
  const int threads = std::max(options.threads_per_replica, 1);
  const bool cores = inventory.device == "cpu";
  if (inventory.workers.empty()) {
    const double devices = cores ? usable_cores(inventory) / threads : inventory.gpus;
    return std::max(static_cast<int>(devices), 1);
  }
  int devices = 0;
  for (const auto& worker : inventory.workers) {
    devices +=
        std::max(static_cast<int>(cores ? std::ssize(worker.cores) / threads : std::ssize(worker.gpus)), 1);
  }
  return devices;
}

// What was asked for, ascending; "every device" resolved.
std::vector<int> asked_replicas(const Options& options, const Inventory& inventory) {
  if (!options.replicas.empty()) {
    auto counts = options.replicas;
    std::sort(counts.begin(), counts.end());
    return counts;
  }
  return {options.strategy == single_strategy ? 1 : all_devices(options, inventory)};
}

// 1 always; a single N adds the powers of two below it, a sweep exactly its own counts.
std::vector<int> measured_replicas(const Options& options, const std::vector<int>& asked) {
  std::set<int> counts(asked.begin(), asked.end());
  counts.insert(1);
  if (!options.replicas_swept) {
    for (int n = 2; n < asked.back(); n *= 2) counts.insert(n);
  }
  return {counts.begin(), counts.end()};
}

// GPUs that replicas of this job may have for themselves.
int all_gpus(const Inventory& inventory) {
  if (inventory.workers.empty()) return inventory.gpus;
  int gpus = 0;
  for (const auto& worker : inventory.workers) gpus += static_cast<int>(std::ssize(worker.gpus));
  return gpus;
}

void require_device(const Options& options, const Inventory& inventory, int largest) {
  if (options.strategy == single_strategy && largest > 1) {
    throw usage_error(
        fmt::format("--strategy single trains on one device, but {} replicas were asked for", largest),
        fmt::format("use --strategy mirrored --replicas {}, or --replicas 1", largest));
  }
  if (inventory.device == "cpu") {
    if (static_cast<std::size_t>(options.threads_per_replica) > inventory.cores.size()) {
      throw environment_error(
          fmt::format("--threads-per-replica {}: one replica needs {} cores, found {}",
                      options.threads_per_replica, options.threads_per_replica, inventory.cores.size()),
          fmt::format("use --threads-per-replica {} or less",
                      std::max<std::size_t>(inventory.cores.size(), 1)));
    }
    return;
  }
  const int gpus = all_gpus(inventory);
  if (largest > gpus && !options.oversubscribe) {
    throw environment_error(
        fmt::format("{} replicas were asked for, but found {} {}{}", largest, gpus, unit(inventory),
                    gpus == 1 ? "" : "s"),
        fmt::format("use --gpus {}, or --oversubscribe to let replicas share a {} (marked simulated); "
                    "`dtrain info` lists the devices",
                    std::max(gpus, 1), unit(inventory)));
  }
}

// The batch of every run, held by replica (weak) or as a whole (strong).
struct BatchRule {
  Scaling scaling = Scaling::weak;
  std::int64_t fixed = default_batch_size;  // images a micro-step of a replica, or a step of all replicas
};

// Of the strategies to measure, the one that deals a step into most shares says how many images it needs.
int most_shares(const Options& options, int largest, const SharesOf& shares) {
  if (options.side_by_side.empty()) return shares(options, largest);
  int most = 1;
  for (const auto& strategy : options.side_by_side) {
    Options one = options;
    one.strategy = strategy;
    most = std::max(most, shares(one, largest));
  }
  return most;
}

// Who gets one share of a step's images.
std::string takers(int shares, int replicas) {
  return fmt::format("{} {}{}", shares, shares == replicas ? "replica" : "group", shares == 1 ? "" : "s") +
         (shares == replicas ? "" : " of replicas");
}

void require_an_image_a_share(const Options& options, int largest, int shares) {
  const std::int64_t smallest = std::int64_t{shares} * options.accumulate;
  if (*options.global_batch >= smallest) return;
  const bool by_replica = shares == largest;
  throw usage_error(
      fmt::format("--global-batch {} is smaller than {}{} need to get one image each", *options.global_batch,
                  takers(shares, largest),
                  options.accumulate > 1 ? fmt::format(" with --accumulate {}", options.accumulate) : ""),
      fmt::format("use --global-batch {} or more{}", smallest,
                  options.accumulate > 1 ? ", or a smaller --accumulate"
                  : by_replica           ? fmt::format(", or --replicas {} or fewer", *options.global_batch)
                                         : ""));
}

BatchRule batch_rule(const Options& options, int largest, const SharesOf& shares) {
  const std::int64_t accumulate = options.accumulate;
  const std::int64_t per_replica = options.batch_size.value_or(default_batch_size);
  const std::int64_t at_largest = per_replica * largest * accumulate;

  if (options.global_batch) {
    const std::int64_t global = *options.global_batch;
    if (options.scaling == Scaling::weak) {
      throw usage_error(
          fmt::format(
              "--global-batch {} holds the global batch as replicas are added: that is strong scaling, "
              "not --scaling weak",
              global),
          fmt::format("drop --scaling weak, or use --batch-size {} instead of --global-batch",
                      std::max<std::int64_t>(global / (largest * accumulate), 1)));
    }
    if (options.batch_size && at_largest != global) {
      throw usage_error(
          fmt::format("--batch-size {} and --global-batch {} contradict each other: {} replicas x {}{} = {}",
                      per_replica, global, largest, per_replica,
                      accumulate > 1 ? fmt::format(" x {} accumulated", accumulate) : "", at_largest),
          fmt::format("give one of them, or --global-batch {}", at_largest));
    }
    require_an_image_a_share(options, largest, most_shares(options, largest, shares));
    return {Scaling::strong, global};
  }

  if (at_largest > std::numeric_limits<int>::max()) {
    throw usage_error(
        fmt::format("--batch-size {} x {} replicas x --accumulate {} = {} images a step, which is too many",
                    per_replica, largest, accumulate, at_largest),
        fmt::format("use --batch-size {} or less",
                    std::max<std::int64_t>(std::numeric_limits<int>::max() / (largest * accumulate), 1)));
  }
  // Under strong scaling --batch-size is what a replica takes at the largest N: the run that was asked for.
  if (options.scaling == Scaling::strong) return {Scaling::strong, at_largest};
  return {Scaling::weak, per_replica};
}

// What all runs of a plan have in common.
struct Frame {
  const Inventory& inventory;
  const SharesOf& shares;
  BatchRule rule;
  int largest = 1;
};

RunPlan make_run(const Options& options, const Frame& frame, int replicas) {
  RunPlan run;
  run.strategy = options.strategy;
  run.replicas = replicas;
  run.id = fmt::format("{}-{}", run.strategy, replicas);
  const std::int64_t images = frame.rule.scaling == Scaling::weak
                                  ? frame.rule.fixed * options.accumulate * replicas
                                  : frame.rule.fixed;
  deal_batch(run, static_cast<int>(images), options.accumulate, frame.shares(options, replicas));
  if (!frame.inventory.workers.empty()) deal_to_workers(run, frame.inventory, frame.largest);
  place(run, options, frame.inventory);
  return run;
}

void require_delayed_ranks(const Options& options, int largest) {
  for (const auto& delay : options.injected_delays) {
    if (delay.rank < largest) continue;
    throw usage_error(fmt::format("--inject-delay rank={}: there is no such rank among {} replica{}",
                                  delay.rank, largest, largest == 1 ? "" : "s"),
                      fmt::format("use a rank from 0 to {}", largest - 1));
  }
}

void require_gradients(const Options& options, int largest) {
  if (options.backup_workers < largest || options.backup_workers == 0) return;
  throw usage_error(
      fmt::format("--backup-workers {} leaves no gradient to update with: there {} {} replica{}",
                  options.backup_workers, largest == 1 ? "is" : "are", largest, largest == 1 ? "" : "s"),
      fmt::format("use fewer, or --replicas {} or more", options.backup_workers + 1));
}

void require_delay_beyond_bases(const Options& options, int largest) {
  if (options.injected_delays.empty() || largest > 1) return;
  throw usage_error(
      "--inject-delay applies at the largest replica count and never to a base, but only 1 replica is "
      "measured",
      "use --replicas 2 or more");
}

void note_uneven_shares(Plan& plan, const Options& options, const SharesOf& shares_of) {
  for (const auto& run : plan.runs) {
    Options one = options;
    one.strategy = run.strategy;
    const int shares = shares_of(one, run.replicas);
    if (run.global_batch % shares == 0) continue;
    const int larger = share_of(run.global_batch, 0, shares);
    plan.notes.push_back(
        fmt::format("{}: {} do not divide the global batch of {}, so they take {} or {} images "
                    "each; gradients are weighted by images",
                    run.id, takers(shares, run.replicas), run.global_batch, larger, larger - 1));
  }
}

// They change nothing on the device that was found, so that one command line serves several machines.
void note_unused_flags(Plan& plan, const Options& options, const Inventory& inventory) {
  std::vector<std::string> unused;
  if (inventory.device != "cuda") {
    if (options.allocator != Allocator::standard) unused.push_back("--allocator " + name(options.allocator));
    if (options.memory_growth) unused.emplace_back("--memory-growth");
    if (!options.cuda_graphs) unused.emplace_back("--no-cuda-graphs");
  } else if (options.threads_per_replica != 1) {
    unused.push_back(fmt::format("--threads-per-replica {}", options.threads_per_replica));
  }
  if (!options.pjrt_plugin.empty() && inventory.device != "tpu") {
    unused.push_back("--pjrt-plugin " + options.pjrt_plugin);
  }
  if (unused.empty()) return;
  plan.notes.push_back(fmt::format("{} {} no effect on {}", join(unused, ", "),
                                   unused.size() == 1 ? "has" : "have",
                                   inventory.device == "tpu"   ? "devices behind a PJRT plugin"
                                   : inventory.device == "cpu" ? "CPU replicas"
                                                               : "GPU replicas"));
}

// What is trained then differs from what N replicas with exact sums train.
bool changes_sums(const Options& options) {
  return options.compress != "none" || options.sync_every > 1 || options.updates == Updates::async;
}

void note_idle_workers(Plan& plan, const Inventory& inventory) {
  if (inventory.workers.empty()) return;
  const int used = plan.runs.back().workers.back() + 1;
  const int workers = static_cast<int>(std::ssize(inventory.workers));
  if (used == workers) return;
  plan.notes.push_back(
      fmt::format("{} of {} workers have no replica in any run: ask for --replicas {} or more",
                  workers - used, workers, workers));
}

void note_simulation(Plan& plan) {
  for (const auto& run : plan.runs) {
    if (run.simulated) {
      plan.notes.push_back(
          fmt::format("{}: simulated, not a scaling measurement: {}", run.id, run.simulated_reason));
    }
  }
}

// Every strategy with as many devices as were asked for: the plain loop is the base of all.
void add_side_by_side(Plan& plan, const Options& options, const Frame& frame, const std::vector<int>& asked) {
  const std::vector<int> counts = options.replicas_swept ? asked : std::vector{frame.largest};
  for (const int n : counts) {
    for (const auto& strategy : options.side_by_side) {
      Options one = options;
      one.strategy = strategy;
      plan.runs.push_back(make_run(one, frame, n));
    }
  }
}

// Where nothing else was asked for, the last of them is what was asked for.
void leave_out_bases(Plan& plan) {
  const auto is_base = [](const RunPlan& run) { return run.base != RunPlan::Base::none; };
  if (std::all_of(plan.runs.begin(), plan.runs.end(), is_base)) {
    plan.runs.erase(plan.runs.begin(), plan.runs.end() - 1);
  } else {
    std::erase_if(plan.runs, is_base);
  }
}

}  // namespace

int share_of(int total, int rank, int replicas) {
  return total / replicas + (rank < total % replicas ? 1 : 0);
}

void deal_batch(RunPlan& run, int global_batch, int accumulate, int shares) {
  run.global_batch = global_batch;
  run.replica_batch.clear();
  for (int rank = 0; rank < run.replicas; ++rank) {
    const int share = std::min(rank / std::max(run.replicas / shares, 1), shares - 1);
    run.replica_batch.push_back(share_of(share_of(global_batch, share, shares), 0, accumulate));
  }
}

Plan make_bench_plan(const Options& options, const Inventory& inventory, const SharesOf& shares) {
  const auto asked = asked_replicas(options, inventory);
  const int largest = asked.back();
  require_device(options, inventory, largest);
  require_gradients(options, largest);
  require_delay_beyond_bases(options, largest);
  require_delayed_ranks(options, largest);
  const Frame frame{inventory, shares, batch_rule(options, largest, shares), largest};

  Plan plan;
  plan.scaling = frame.rule.scaling;
  Options single = options;
  single.strategy = single_strategy;
  RunPlan plain = make_run(single, frame, 1);
  plain.id = "plain";
  plain.base = RunPlan::Base::plain;
  plan.runs.push_back(std::move(plain));
  if (!options.side_by_side.empty()) {
    add_side_by_side(plan, options, frame, asked);
  } else if (options.strategy != single_strategy) {
    for (const int n : measured_replicas(options, asked)) {
      plan.runs.push_back(make_run(options, frame, n));
      if (n == largest && n > 1 && changes_sums(options)) {
        RunPlan exact = plan.runs.back();
        exact.id += "-exact";
        exact.exact = true;
        plan.runs.insert(plan.runs.end() - 1, std::move(exact));
      }
      if (n == 1) plan.runs.back().base = RunPlan::Base::strategy;
    }
  }
  if (!options.bases && options.side_by_side.empty()) leave_out_bases(plan);
  note_unused_flags(plan, options, inventory);
  note_uneven_shares(plan, options, shares);
  note_idle_workers(plan, inventory);
  note_simulation(plan);
  return plan;
}

Plan make_train_plan(const Options& options, const Inventory& inventory, const SharesOf& shares) {
  if (!options.side_by_side.empty()) {
    throw usage_error("--strategy all sets strategies side by side, which is what `bench` does",
                      fmt::format("name one of them: {}", join(options.side_by_side, ", ")));
  }
  const int replicas = asked_replicas(options, inventory).back();
  require_device(options, inventory, replicas);
  require_gradients(options, replicas);
  require_delayed_ranks(options, replicas);
  const Frame frame{inventory, shares, batch_rule(options, replicas, shares), replicas};
  Plan plan;
  plan.scaling = frame.rule.scaling;
  plan.runs.push_back(make_run(options, frame, replicas));
  note_unused_flags(plan, options, inventory);
  note_uneven_shares(plan, options, shares);
  note_idle_workers(plan, inventory);
  note_simulation(plan);
  return plan;
}

}  // namespace dtrain::config
