#include "predict/counts.hpp"

#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/options.hpp"
#include "predict/setup.hpp"

namespace dtrain::predict {

std::vector<int> parse_counts(const std::string& text, const std::string& flag) {
  const auto count = [&](const std::string& part) {
    return config::parse_integer(part, flag, 1, largest_replicas);
  };
  std::set<int> counts;
  for (const auto& part : split(text, ',')) {
    const auto dots = part.find("..");
    const int first = count(part.substr(0, dots));
    const int last = dots == std::string::npos ? first : count(part.substr(dots + 2));
    if (first > last) {
      throw usage_error(fmt::format("{}: '{}' runs downwards", flag, part),
                        fmt::format("write {}..{}", last, first));
    }
    if (last - first < config::max_sweep) {
      for (int n = first; n <= last; ++n) counts.insert(n);
    }
    if (last - first >= config::max_sweep || counts.size() > config::max_sweep) {
      throw usage_error(
          fmt::format("{}: '{}' asks for more than {} predictions", flag, text, config::max_sweep),
          "ask for fewer N, such as 8,64,512");
    }
  }
  return {counts.begin(), counts.end()};
}

}  // namespace dtrain::predict
