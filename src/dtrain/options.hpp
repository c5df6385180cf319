#pragma once

#include <optional>
#include <string>

#include "config/options.hpp"

namespace dtrain {

// What `dtrain train` can be asked for, with its defaults: strategy, replicas, model, optimizer, batch, data,
// epochs, seed and more.
using Options = config::Options;

// The flags of `dtrain train` that are about training: replicas, workers, model, data, epochs. `--help`
// prints them, and `summary` above, and there are no options. Usage error naming the flag for what cannot be.
std::optional<Options> read_options(int argc, const char* const* argv, const std::string& summary);

}  // namespace dtrain
