#include "cli/training_flags.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "cli/side_by_side.hpp"
#include "comm/communicator.hpp"
#include "comm/compressor.hpp"
#include "comm/exchange.hpp"
#include "kernels/optimizer.hpp"
#include "model/find_model.hpp"
#include "model/zoo.hpp"
#include "report/files.hpp"
#include "report/writer.hpp"
#include "strategy/strategy.hpp"
#include "train/schedule.hpp"

namespace dtrain::cli {

namespace {

using config::Options;

const Options defaults;
constexpr int any_count = std::numeric_limits<int>::max();

TakeText integer(const std::string& flag, int low, int high, int& target) {
  return [=, &target](const std::string& text) { target = config::parse_integer(text, flag, low, high); };
}

TakeText integer(const std::string& flag, int low, int high, std::optional<int>& target) {
  return [=, &target](const std::string& text) { target = config::parse_integer(text, flag, low, high); };
}

TakeText number(const std::string& flag, double low, double high, double& target) {
  return [=, &target](const std::string& text) { target = config::parse_number(text, flag, low, high); };
}

// The registered name, whatever spelling was given.
template <class Value>
TakeText registered(const Registry<Value>& registry, std::string& target) {
  return [&registry, &target](const std::string& text) { target = registry.at(text).name; };
}

std::string with_default(const std::string& help, const std::string& value) {
  return fmt::format("{} [{}]", help, value);
}

template <class Value>
std::string with_default(const std::string& help, const Value& value) {
  return fmt::format("{} [{}]", help, value);
}

void take_communicator(Options& options, const std::string& text) {
  options.comm = text == "auto" ? text : comm::communicators().at(text).name;
}

void take_formats(Options& options, const std::string& text) {
  options.formats.clear();
  for (const auto& part : split(text, ',')) {
    const std::string& name = report::writers().at(part).name;
    if (std::find(options.formats.begin(), options.formats.end(), name) == options.formats.end()) {
      options.formats.push_back(name);
    }
  }
}

void take_target(Options& options, const std::string& text) {
  const std::string flag = "--target-accuracy";
  options.target_accuracy = config::parse_rate(text, flag);
  if (*options.target_accuracy == 0.0) {
    throw usage_error(fmt::format("{}: '{}' is reached by doing nothing", flag, text),
                      "give a rate such as 90%");
  }
}

}  // namespace

namespace {

// What is exchanged between replicas, how often, and in how many bytes.
void declare_exchange_flags(Flags& flags, Options& options) {
  flags.value(
      "--allreduce", "NAME",
      with_default("Algorithm of the communicator, where it has several; auto: by size", defaults.allreduce),
      [&options](const std::string& text) {
        comm::check_allreduce_algorithm(text);
        options.allreduce = text;
      });
  flags.value(
      "--compress", "METHOD",
      with_default("none, fp16, bf16, topk:R (share of the gradients) or powersgd:R (rank); all with error "
                   "feedback",
                   defaults.compress),
      [&options](const std::string& text) {
        options.compress = comm::parse_compression(text, "--compress");
      });
  flags.value("--sync-every", "K",
              with_default("Local SGD: average weights every K steps instead of summing gradients",
                           defaults.sync_every),
              integer("--sync-every", 1, any_count, options.sync_every));
  flags.value("--outer-momentum", "B",
              with_default("With --sync-every: momentum of the averaged change", defaults.outer_momentum),
              number("--outer-momentum", 0.0, 0.999, options.outer_momentum));
  flags.choice("--updates", {"sync", "async"},
               with_default("parameter-server: after all gradients of a step, or after each",
                            config::name(defaults.updates)),
               [&options](const std::string& text) { options.updates = config::parse_updates(text); });
  flags.value("--staleness", "S", "With --updates async: steps a worker may be ahead of the slowest [any]",
              integer("--staleness", 0, any_count, options.staleness));
  flags.value("--backup-workers", "B",
              with_default("parameter-server, sync: gradients of a step that its update does not wait for",
                           defaults.backup_workers),
              integer("--backup-workers", 0, config::max_replicas, options.backup_workers));
  flags.value("--servers", "N",
              with_default("parameter-server in one process: parts that the variables are cut into",
                           defaults.servers),
              integer("--servers", 1, 1024, options.servers));
}

void take_hosts(std::vector<std::string>& hosts, const std::string& text) { hosts = split(text, ','); }

}  // namespace

void declare_cluster_flags(Flags& flags, Options& options) {
  config::ClusterFlags& cluster = options.cluster;
  flags.group("Workers");
  flags.choice(
      "--launcher", {"auto", "flags", "tf_config", "torchrun", "openmpi", "pmi", "slurm", "none"},
      with_default("Whose word counts on the other processes; none: there are none", cluster.launcher),
      [&cluster](const std::string& text) { cluster.launcher = text; });
  flags.value("--rendezvous", "HOST:PORT", "Where rank 0 listens, for launchers that do not say",
              [&cluster](const std::string& text) { cluster.rendezvous = text; });
  flags.value("--worker-hosts", "LIST", "Addresses of all workers, host:port,..., instead of TF_CONFIG",
              [&cluster](const std::string& text) { take_hosts(cluster.worker_hosts, text); });
  flags.value("--ps-hosts", "LIST", "Addresses of all parameter servers",
              [&cluster](const std::string& text) { take_hosts(cluster.ps_hosts, text); });
  flags.choice("--task-type", {"chief", "worker", "ps"}, "What this process is [worker]",
               [&cluster](const std::string& text) { cluster.task_type = text; });
  flags.value("--task-index", "I", "Its number among those, from 0", [&cluster](const std::string& text) {
    cluster.task_index = config::parse_integer(text, "--task-index", 0, config::max_replicas);
  });
  flags.value("--rendezvous-timeout", "TIME", with_default("Longest wait for all processes to come", "60s"),
              [&options](const std::string& text) {
                options.rendezvous_timeout = config::parse_duration(text, "--rendezvous-timeout");
              });
  flags.path("--tls-certificate", "FILE", "Encrypt control and parameters: this process's certificate (PEM)",
             options.tls_certificate);
  flags.path("--tls-key", "FILE", "Its key", options.tls_key);
  flags.path("--tls-authority", "FILE", "Who must have signed the others' certificates",
             options.tls_authority);
}

void declare_world_flags(Flags& flags, Options& options) {
  flags.group("Replicas");
  flags.choice(
      "--strategy",
      [] {
        std::vector<std::string> names = strategy::strategies().names();
        names.emplace_back(all_strategies);
        return names;
      }(),
      with_default(
          "How replicas train together; TensorFlow's class names work too. all: of bench, side by side",
          defaults.strategy),
      [&options](const std::string& text) {
        options.strategy = text == all_strategies ? text : strategy::strategies().at(text).name;
      });
  flags.value("--gpus,--replicas", "N|LIST|RANGE",
              "How many replicas: 4, 1,2,4 or 1..4 [every device there is]",
              [&options](const std::string& text) {
                options.replicas = config::parse_replica_list(text, "--gpus/--replicas");
                options.replicas_swept = text.find_first_of(",.") != std::string::npos;
              });
  flags.choice(
      "--device", {"auto", "cuda", "cpu", "tpu"},
      with_default("auto: GPUs if there are any, else CPU cores; cuda never falls back", defaults.device),
      [&options](const std::string& text) { options.device = text; });
  flags.value("--threads-per-replica", "N",
              with_default("Cores that one CPU replica owns", defaults.threads_per_replica),
              integer("--threads-per-replica", 1, config::max_replicas, options.threads_per_replica));
  flags.toggle("--oversubscribe", "Let replicas share a GPU; marked simulated, never called scaling",
               options.oversubscribe);
  flags.choice(
      "--comm",
      [] {
        std::vector<std::string> names{"auto"};
        for (const auto& name : comm::communicators().names()) names.push_back(name);
        return names;
      }(),
      with_default("Who carries gradients between replicas", defaults.comm),
      [&options](const std::string& text) { take_communicator(options, text); });
  flags.value("--bucket-mb", "MB",
              with_default("Gradients are sent in buckets of this size", defaults.bucket_mb),
              number("--bucket-mb", 1e-3, 1e5, options.bucket_mb));
  flags.toggle(
      "--overlap",
      with_default("Send buckets while backward goes on, not after it", defaults.overlap ? "on" : "off"),
      options.overlap);
  flags.value(
      "--timeout", "TIME", with_default("Longest wait for another replica or worker", "20s"),
      [&options](const std::string& text) { options.timeout = config::parse_duration(text, "--timeout"); });
  declare_exchange_flags(flags, options);
  flags.value("--memory-limit", "SIZE", "Most memory a replica may take, e.g. 200MB [what is free]",
              [&options](const std::string& text) {
                options.memory_limit = config::parse_size(text, "--memory-limit");
              });
  flags.choice(
      "--allocator", {"default", "async"},
      with_default("Of GPU memory. default: one reservation a replica; async: a stream-ordered pool of CUDA",
                   config::name(defaults.allocator)),
      [&options](const std::string& text) { options.allocator = config::parse_allocator(text); });
  flags.toggle("--memory-growth", "Take GPU memory as it is needed instead of all of it at the start",
               options.memory_growth);
  flags.toggle("--cuda-graphs", with_default("Record a step on the GPU once and replay it", "on"),
               options.cuda_graphs);
  declare_part_flags(flags, options);

  flags.group("Batch");
  flags.value("--batch-size", "N",
              with_default("Images a replica takes in a step", config::default_batch_size),
              integer("--batch-size", 1, any_count, options.batch_size));
  flags.value("--global-batch", "N",
              "Images a step over all replicas, held as replicas are added: strong scaling",
              integer("--global-batch", 1, any_count, options.global_batch));
  flags.choice(
      "--scaling", {"weak", "strong"},
      "What is held as replicas are added: each one's batch, or the global batch (then --batch-size holds at "
      "the largest N) [weak]",
      [&options](const std::string& text) { options.scaling = config::parse_scaling(text); });
  flags.value("--accumulate", "K",
              with_default("Micro-steps whose gradients make one update", defaults.accumulate),
              integer("--accumulate", 1, 65536, options.accumulate));
}

void declare_model_flag(Flags& flags, const std::string& help, std::string& target) {
  flags.choice_or_path("--model", model::zoo().names(), "FILE.toml", help,
                       [&target](const std::string& text) {
                         target = model::is_model_file(text) ? text : model::zoo().at(text).name;
                       });
}

void declare_training_flags(Flags& flags, Options& options) {
  flags.group("Training");
  declare_model_flag(flags, with_default("What is trained", defaults.model), options.model);
  flags.choice("--precision", {"fp32", "tf32", "bf16", "fp16"},
               with_default("Of the arithmetic; weights stay fp32. mixed_float16 and mixed_bfloat16 work too",
                            config::name(defaults.precision)),
               [&options](const std::string& text) { options.precision = config::parse_precision(text); });
  flags.choice("--optimizer", kernels::optimizers().names(),
               with_default("The update rule", defaults.optimizer),
               registered(kernels::optimizers(), options.optimizer));
  flags.value("--lr", "RATE", with_default("Learning rate, the schedule's peak", defaults.learning_rate),
              number("--lr", 0.0, 1e6, options.learning_rate));
  flags.value("--momentum", "M", with_default("Of sgd", defaults.momentum),
              number("--momentum", 0.0, 1.0, options.momentum));
  flags.value("--weight-decay", "D", with_default("Decoupled weight decay", defaults.weight_decay),
              number("--weight-decay", 0.0, 1e6, options.weight_decay));
  flags.choice("--schedule", train::schedules().names(),
               with_default("Of the learning rate", defaults.schedule), [&options](std::string text) {
                 std::replace(text.begin(), text.end(), '-', '_');
                 options.schedule = train::schedules().at(text).name;
               });
  flags.value("--warmup-epochs", "E",
              with_default("Epochs over which the learning rate rises to its peak", defaults.warmup_epochs),
              number("--warmup-epochs", 0.0, 1e6, options.warmup_epochs));
  flags.value("--seed", "S", with_default("Of weights, order of images and augmentation", defaults.seed),
              [&options](const std::string& text) { options.seed = config::parse_seed(text, "--seed"); });
  flags.toggle("--deterministic", "Same bits in every run, where a faster way would not give them",
               options.deterministic);
}

void declare_data_flags(Flags& flags, Options& options) {
  flags.group("Data");
  flags.value(
      "--data", "PATH|synthetic",
      "CIFAR-10 binary files: a folder, a file or a glob [what `dtrain data fetch` left, else synthetic]",
      [&options](const std::string& text) {
        if (text.empty()) throw usage_error("--data: '' is not a path", "give a path, or synthetic");
        options.data = text;
      });
  flags.value("--shuffle", "N",
              with_default("Records in the shuffle buffer; 0 keeps file order", defaults.shuffle),
              integer("--shuffle", 0, any_count, options.shuffle));
  flags.toggle("--cache", with_default("Keep records in memory", defaults.cache ? "on" : "off"),
               options.cache);
  flags.value("--prefetch", "N",
              with_default("Batches prepared ahead, inside the replica's share of cores", defaults.prefetch),
              integer("--prefetch", 0, 1024, options.prefetch));
  flags.toggle("--augment", with_default("Random crops and flips", defaults.augment ? "on" : "off"),
               options.augment);
  flags.choice("--last-batch", {"keep", "drop"},
               with_default("The remainder of an epoch", config::name(defaults.last_batch)),
               [&options](const std::string& text) { options.last_batch = config::parse_last_batch(text); });
}

void declare_measuring_flags(Flags& flags, Options& options) {
  flags.group("Measuring");
  flags.toggle("--bases",
               with_default("Measure the plain loop and N = 1, too, which efficiency is held against",
                            defaults.bases ? "on" : "off"),
               options.bases);
  flags.value("--warmup", "N", "Steps a round before the clock starts [until step times are steady]",
              integer("--warmup", 0, 1'000'000'000, options.warmup));
  flags.value("--steps", "N", "Measured steps a round [as many as --min-time needs]",
              integer("--steps", 1, 1'000'000'000, options.steps));
  flags.value("--rounds", "N",
              with_default("Times that every replica count is measured, in turns", defaults.rounds),
              integer("--rounds", 1, 10'000, options.rounds));
  flags.value(
      "--min-time", "TIME", with_default("Shortest measured time of a round", "1s"),
      [&options](const std::string& text) { options.min_time = config::parse_duration(text, "--min-time"); });
  flags.repeated("--inject-delay", "rank=R,phase=P,ms=M",
                 "Slow one rank in one phase at the largest replica count, to see the report find it",
                 [&options](const std::string& text) {
                   options.injected_delays.push_back(config::parse_injected_delay(text));
                 });
  flags.path("--trace", "FILE", "Write a Chrome trace of the measured steps", options.trace);
}

void declare_epoch_flags(Flags& flags, Options& options) {
  flags.group("Epochs");
  flags.value("--epochs", "E", with_default("Times through the training set", defaults.epochs),
              integer("--epochs", 1, 1'000'000, options.epochs));
  flags.value("--target-accuracy", "A",
              "Stop when the test accuracy reaches this, e.g. 90%; missed is exit 5",
              [&options](const std::string& text) { take_target(options, text); });
  flags.path("--checkpoint", "FILE", "Write the whole state of training after every epoch",
             options.checkpoint);
  flags.path("--resume", "FILE", "Go on from a checkpoint exactly", options.resume);
}

void declare_output_flags(Flags& flags, Options& options) {
  flags.group("Output");
  flags.path("--out", "DIR", with_default("Folder for the result files", defaults.out), options.out);
  flags.value("--format", "LIST",
              fmt::format("Of {} [{}]", join(report::writers().names(), ","), join(all_formats(), ",")),
              [&options](const std::string& text) { take_formats(options, text); });
  flags.toggle("--quiet", "No progress, only warnings and results", options.quiet);
}

std::vector<std::string> all_formats() {
  std::vector<std::string> formats = report::default_formats();
  formats.insert(formats.begin(), "console");
  return formats;
}

void declare_run_flags(Flags& flags, Options& options, std::string& config_file) {
  flags.group("Output");
  flags.toggle("--dry-run", "Show what would run, and where, then stop", options.dry_run);
  flags.path("--config", "FILE", "Read flags from a TOML or INI file first; the command line wins",
             config_file);
}

}  // namespace dtrain::cli
