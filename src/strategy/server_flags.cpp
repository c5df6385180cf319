#include "strategy/server_flags.hpp"

#include <fmt/format.h>

namespace dtrain::strategy {

std::vector<std::string> server_flags(const config::Options& options) {
  std::vector<std::string> given;
  if (options.updates != config::Updates::sync) given.push_back("--updates " + config::name(options.updates));
  if (options.staleness) given.push_back(fmt::format("--staleness {}", *options.staleness));
  if (options.backup_workers != 0)
    given.push_back(fmt::format("--backup-workers {}", options.backup_workers));
  if (options.servers != 1) given.push_back(fmt::format("--servers {}", options.servers));
  return given;
}

}  // namespace dtrain::strategy
