#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

// Flags of the commands that train, bound to Options in the groups that help shows. Defaults in help texts
// are those of Options, choices those of the registries.
void declare_world_flags(Flags& flags, config::Options& options);  // strategy, replicas, device, batch
// Throws a usage error for a flag of another strategy than the one that was asked for.
void refuse_flags_of_others(const config::Options& options);
// A note where flags were given that are about buckets of gradients, and the strategy sends none.
std::string bucket_flags_without_effect(const config::Options& options);
void declare_part_flags(Flags& flags, config::Options& options);     // pipeline, sharded, tpu
void declare_cluster_flags(Flags& flags, config::Options& options);  // other processes
void declare_model_flag(Flags& flags, const std::string& help,
                        std::string& target);                         // as find_model takes it
void declare_training_flags(Flags& flags, config::Options& options);  // model, optimizer, schedule, seed
void declare_data_flags(Flags& flags, config::Options& options);
void declare_measuring_flags(Flags& flags, config::Options& options);  // warm-up, steps, rounds, delays
void declare_epoch_flags(Flags& flags, config::Options& options);      // epochs, target, checkpoints
void declare_output_flags(Flags& flags, config::Options& options);
void declare_run_flags(Flags& flags, config::Options& options, std::string& config_file);  // dry run, config

// What bench and train write unless told otherwise.
std::vector<std::string> all_formats();

}  // namespace dtrain::cli
