#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/options.hpp"

namespace dtrain::config {

namespace {

template <class Number>
std::errc read_whole(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return error;
  return stop == end ? std::errc() : std::errc::invalid_argument;
}

Error bad_value(const std::string& flag, std::string_view text, const std::string& why, std::string advice) {
  return usage_error(fmt::format("{}: '{}' {}", flag, text, why), std::move(advice));
}

template <class Number>
Number parse_in_range(const std::string& text, const std::string& flag, Number low, Number high,
                      const char* kind) {
  Number value{};
  const std::errc error = read_whole(text, value);
  const std::string advice = high == std::numeric_limits<Number>::max()
                                 ? fmt::format("give {} of at least {}", kind, low)
                                 : fmt::format("give {} from {} to {}", kind, low, high);
  if (error == std::errc::invalid_argument)
    throw bad_value(flag, text, fmt::format("is not {}", kind), advice);
  if (error == std::errc::result_out_of_range) throw bad_value(flag, text, "is out of range", advice);
  if (!(value >= low && value <= high)) {  // NaN fails both
    throw bad_value(flag, text, value < low ? "is too small" : "is out of range", advice);
  }
  return value;
}

struct Unit {
  std::string_view suffix;
  double multiply;
  double divide;  // apart, so that 70% is exactly 0.7
};

// A positive number followed by one of the units; the unit without a suffix comes last.
double parse_with_unit(const std::string& text, const std::string& flag, std::span<const Unit> units,
                       const std::string& advice) {
  std::string_view number = text;
  Unit used{};
  for (const auto& unit : units) {
    if (!text.ends_with(unit.suffix)) continue;
    number.remove_suffix(unit.suffix.size());
    used = unit;
    break;
  }
  double value = 0.0;
  const std::errc error = read_whole(number, value);
  if (error == std::errc::result_out_of_range) throw bad_value(flag, text, "is out of range", advice);
  if (error != std::errc() || !std::isfinite(value)) {
    throw bad_value(flag, text, "is not a number with a known unit", advice);
  }
  return value * used.multiply / used.divide;
}

}  // namespace

int parse_integer(const std::string& text, const std::string& flag, int low, int high) {
  return parse_in_range(text, flag, low, high, "a whole number");
}

double parse_number(const std::string& text, const std::string& flag, double low, double high) {
  return parse_in_range(text, flag, low, high, "a number");
}

std::uint64_t parse_seed(const std::string& text, const std::string& flag) {
  return parse_in_range<std::uint64_t>(text, flag, 0, std::numeric_limits<std::uint64_t>::max(),
                                       "a whole number");
}

Seconds parse_duration(const std::string& text, const std::string& flag) {
  static constexpr Unit units[] = {{"ms", 1, 1e3}, {"s", 1, 1}, {"", 1, 1}};
  const std::string advice = "give a duration such as 5s or 250ms (a bare number is seconds)";
  const double value = parse_with_unit(text, flag, units, advice);
  constexpr double longest = 1e8;  // about three years; keeps sums of nanoseconds inside 64 bits
  if (!(value > 0.0)) throw bad_value(flag, text, "is not more than zero", advice);
  if (value > longest) throw bad_value(flag, text, "is out of range", advice);
  return Seconds(value);
}

std::size_t parse_size(const std::string& text, const std::string& flag) {
  static constexpr Unit units[] = {{"KB", 1e3, 1}, {"MB", 1e6, 1}, {"GB", 1e9, 1}, {"", 1, 1}};
  const std::string advice = "give a size such as 200MB, 1.5GB or 4096 (a bare number is bytes)";
  const double value = parse_with_unit(text, flag, units, advice);
  if (!(value >= 1.0)) throw bad_value(flag, text, "is not at least one byte", advice);
  if (value > 1e18) throw bad_value(flag, text, "is out of range", advice);
  return static_cast<std::size_t>(std::llround(value));
}

double parse_rate(const std::string& text, const std::string& flag) {
  static constexpr Unit units[] = {{"%", 1, 100}, {"", 1, 1}};
  const double value = parse_with_unit(text, flag, units, "give a rate such as 90% or 0.9");
  if (value > 1.0 && !text.ends_with('%') && value <= 100.0) {
    throw bad_value(flag, text, "is more than 1", fmt::format("did you mean {}%?", text));
  }
  if (!(value >= 0.0 && value <= 1.0)) {
    throw bad_value(flag, text, "is out of range", "give a rate from 0% to 100%, or from 0 to 1");
  }
  return value;
}

std::vector<int> parse_replica_list(const std::string& text, const std::string& flag) {
  const auto count = [&](const std::string& part) {
    int value = 0;
    if (read_whole(part, value) == std::errc() && value >= 1 && value <= max_replicas) return value;
    throw bad_value(
        flag, text,
        part == text ? "is not a number of replicas"
                     : fmt::format("has '{}' where a number of replicas is needed", part),
        fmt::format("give one from 1 to {}, a list such as 1,2,4 or a range such as 1..4", max_replicas));
  };
  const auto dots = text.find("..");
  std::vector<int> counts;
  if (dots != std::string::npos) {
    const int first = count(text.substr(0, dots));
    const int last = count(text.substr(dots + 2));
    if (first > last) {
      throw bad_value(flag, text, "runs downwards", fmt::format("write {}..{}", last, first));
    }
    if (last - first >= max_sweep) {
      throw bad_value(flag, text, fmt::format("asks for {} replica counts", last - first + 1),
                      fmt::format("measure at most {} of them, e.g. {},{}", max_sweep, first, last));
    }
    for (int n = first; n <= last; ++n) counts.push_back(n);
    return counts;
  }
  std::set<int> seen;
  for (const auto& part : split(text, ',')) {
    counts.push_back(count(part));
    if (!seen.insert(counts.back()).second) {
      throw bad_value(flag, text, fmt::format("names {} twice", counts.back()), "name every count once");
    }
  }
  if (counts.size() > max_sweep) {
    throw bad_value(flag, text, fmt::format("asks for {} replica counts", counts.size()),
                    fmt::format("measure at most {} of them", max_sweep));
  }
  return {seen.begin(), seen.end()};
}

InjectedDelay parse_injected_delay(const std::string& text) {
  const std::string flag = "--inject-delay";
  const std::string advice = "write it as rank=1,phase=input,ms=10";
  InjectedDelay delay;
  std::set<std::string> given;
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos) {
      throw bad_value(flag, text, fmt::format("has '{}' where KEY=VALUE is needed", part), advice);
    }
    const std::string key = part.substr(0, equals);
    const std::string value = part.substr(equals + 1);
    if (!given.insert(key).second) throw bad_value(flag, text, fmt::format("gives {} twice", key), advice);
    if (key == "rank") {
      delay.rank = parse_integer(value, flag + " rank", 0, max_replicas - 1);
    } else if (key == "phase") {
      delay.phase = parse_phase(value);
    } else if (key == "ms") {
      delay.milliseconds = parse_number(value, flag + " ms", 0.0, 60'000.0);
    } else {
      throw bad_value(flag, text, fmt::format("has an unknown key '{}'", key), advice);
    }
  }
  for (const char* key : {"rank", "phase", "ms"}) {
    if (!given.contains(key)) throw bad_value(flag, text, fmt::format("lacks {}", key), advice);
  }
  if (delay.milliseconds == 0.0) throw bad_value(flag, text, "delays by nothing", advice);
  return delay;
}

}  // namespace dtrain::config
