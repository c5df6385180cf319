#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "config/launch_environment.hpp"

namespace dtrain::config {

enum class Scaling { weak, strong };
enum class Precision { fp32, tf32, bf16, fp16 };
enum class LastBatch { keep, drop };
enum class Updates { sync, async };
enum class Allocator { standard, async };
enum class Phase { input, forward, backward, communication, update };

inline constexpr int phase_count = 5;
inline constexpr int max_replicas = 4096;      // in one process
inline constexpr int max_sweep = 64;           // replica counts measured in one run
inline constexpr int default_batch_size = 64;  // images a replica

std::string name(Scaling scaling);
std::string name(Precision precision);
std::string name(LastBatch last_batch);
std::string name(Updates updates);
std::string name(Allocator allocator);
std::string name(Phase phase);
Precision parse_precision(const std::string& text);  // accepts mixed_float16 and mixed_bfloat16 too
Scaling parse_scaling(const std::string& text);
LastBatch parse_last_batch(const std::string& text);
Updates parse_updates(const std::string& text);
Allocator parse_allocator(const std::string& text);  // default, async
Phase parse_phase(const std::string& text);

// Slows one rank in one phase of every step, to prove what the report says of stragglers.
struct InjectedDelay {
  int rank = 0;
  Phase phase = Phase::input;
  double milliseconds = 0.0;
};

InjectedDelay parse_injected_delay(const std::string& text);  // "rank=1,phase=input,ms=10"

// "4" -> {4}; "1,2,4" -> {1,2,4}; "1..4" -> {1,2,3,4}. Usage error for anything else, zero and negatives
// included.
std::vector<int> parse_replica_list(const std::string& text, const std::string& flag);
Seconds parse_duration(const std::string& text,
                       const std::string& flag);  // "5s", "250ms", bare number = s; > 0
std::size_t parse_size(const std::string& text, const std::string& flag);  // "25MB"; bytes, MB = 10^6; > 0
double parse_rate(const std::string& text, const std::string& flag);  // "5%" -> 0.05; "0.9" -> 0.9; 0 to 1

// The whole text must be a number in [low, high]: trailing characters, overflow and NaN are usage errors that
// name flag and value.
int parse_integer(const std::string& text, const std::string& flag, int low, int high);
double parse_number(const std::string& text, const std::string& flag, double low, double high);
std::uint64_t parse_seed(const std::string& text, const std::string& flag);

// Everything a user can ask for, as plain values: no flag syntax, no device, nothing looked up. The defaults
// here are the defaults in help texts and documents.
struct Options {
  std::string strategy = "mirrored";
  std::vector<std::string> side_by_side;  // strategies that `all` stands for; empty = only the one above
  std::vector<int> replicas;              // as asked for; empty = every device there is
  bool replicas_swept = false;            // a list or range was given, so exactly those are measured (and 1)
  std::string device = "auto";
  int threads_per_replica = 1;
  bool oversubscribe = false;

  std::optional<int> batch_size;    // images a replica; 64 if neither this nor global_batch is given
  std::optional<int> global_batch;  // images a step over all replicas; means strong scaling
  std::optional<Scaling> scaling;
  int accumulate = 1;

  std::string model = "cnn";
  Precision precision = Precision::fp32;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0.0;
  std::string schedule = "constant";
  double warmup_epochs = 0.0;
  std::uint64_t seed = 0;
  bool deterministic = false;

  std::string data;     // empty = what `fetch` left, else synthetic; "synthetic"; or a path
  int shuffle = 10000;  // records in the shuffle buffer; 0 = in file order
  bool cache = true;
  int prefetch = 2;
  bool augment = false;
  LastBatch last_batch = LastBatch::drop;

  double bucket_mb = 25.0;
  bool overlap = true;  // buckets are sent while backward goes on; else after it
  std::string comm = "auto";
  std::string allreduce = "auto";  // the algorithm, where the communicator has several
  std::string compress = "none";
  int sync_every = 1;           // steps between two averagings of weights; 1: gradients are summed every step
  double outer_momentum = 0.0;  // of the averaged change, with sync_every above 1
  Updates updates = Updates::sync;  // parameter-server
  std::optional<int> staleness;     // with async: steps a worker may be ahead of the slowest
  int backup_workers = 0;           // with sync: gradients of a step that an update does not wait for
  int servers = 1;                  // parameter servers, where no cluster names them

  std::optional<int> pipeline_stages;      // devices that a pipeline spans; none = all of a run
  std::optional<int> micro_batches;        // that a pipeline's share of a step is cut into; none = 8 a stage
  std::string pipeline_schedule = "1f1b";  // when a stage goes forward and when backward
  std::vector<std::string> cut;            // layers that begin the stages after the first; empty = by cost
  std::vector<double> layer_costs;  // what the cut goes by: seconds of each layer; empty = operations counted
  int zero_stage = 2;               // sharded: 1 optimizer states, 2 and gradients, 3 and weights
  std::string pjrt_plugin;          // tpu: library that drives the devices; empty = libtpu

  std::optional<std::size_t> memory_limit;  // bytes a replica may take
  Allocator allocator = Allocator::standard;
  bool memory_growth = false;  // GPU: take memory as it is needed, not all of it at first
  bool cuda_graphs = true;     // GPU: record a step once and replay it

  bool bases = true;          // measure the plain loop and N = 1 as well, which efficiency is held against
  std::optional<int> warmup;  // steps a round; none = until steady
  std::optional<int> steps;   // steps a round; none = by min_time
  int rounds = 5;
  Seconds min_time{1.0};             // of a round
  Seconds timeout{20.0};             // between replicas and workers
  Seconds rendezvous_timeout{60.0};  // for all workers to come
  ClusterFlags cluster;
  std::string tls_certificate;  // PEM files; none: control and parameters go unencrypted
  std::string tls_key;
  std::string tls_authority;

  int epochs = 10;
  std::optional<double> target_accuracy;
  std::string checkpoint;  // file to write after every epoch; empty = none
  std::string resume;      // checkpoint to go on from

  std::string out = "results";
  std::vector<std::string> formats;  // empty = the command's own
  std::string trace;
  bool quiet = false;
  bool dry_run = false;
  std::vector<InjectedDelay> injected_delays;

  std::string baseline;         // result to hold this one against afterwards; empty = none
  double max_regress = 0.05;    // of images/s, that the comparison lets pass
  std::optional<Seconds> tune;  // time to search for better flags before measuring; none = do not search
};

}  // namespace dtrain::config
