#include "comm/exchange.hpp"

#include <stdexcept>

namespace dtrain::comm {

std::unique_ptr<Exchange> Exchange::subgroup(const std::vector<int>&, const std::string& name) {
  throw std::logic_error("an exchange that has no parts was asked for " + name);
}

ExchangeConfig subgroup_config(const ExchangeConfig& config, const std::vector<int>& ranks,
                               const std::string& name) {
  ExchangeConfig part = config;
  part.name = config.name + "/" + name;
  part.members.clear();
  for (const int rank : ranks) part.members.push_back(config.members.at(static_cast<std::size_t>(rank)));
  return part;
}

}  // namespace dtrain::comm
