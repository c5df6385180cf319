#include "predict/link.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::predict {

namespace {

constexpr double gigabit = 1e9 / 8.0;
constexpr double infiniband_share = 0.96;
constexpr double tcp_share = 1448.0 / 1538.0;
constexpr double preset_doubt = 0.2;

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr Unit times[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"s", 1.0}, {"", 1.0}};
constexpr Unit bandwidths[] = {{"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"Kbit/s", 1e3 / 8}, {"GB/s", 1e9},
                               {"MB/s", 1e6},       {"KB/s", 1e3},       {"B/s", 1.0}};

// A finite number followed by one of the units.
std::optional<double> read(std::string_view text, std::span<const Unit> units) {
  for (const auto& unit : units) {
    if (!text.ends_with(unit.suffix)) continue;
    text.remove_suffix(unit.suffix.size());
    double value = 0.0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value))
      return std::nullopt;
    return value * unit.factor;
  }
  return std::nullopt;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// ASCII, as the names of links are.
std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

Error bad_link(const std::string& flag, const std::string& text, const std::string& why) {
  const auto known = links().names();
  const auto close = nearest(text, known);
  return usage_error(fmt::format("{}: '{}' {}", flag, text, why),
                     fmt::format("{}give one of {}, or latency and bandwidth such as 5us,12.5GB/s",
                                 close ? "did you mean '" + *close + "'? " : "", join(known, ", ")));
}

Link preset(const std::string& name, double alpha, double bytes_per_second, const std::string& source) {
  return {
      .name = name, .alpha = alpha, .beta = 1.0 / bytes_per_second, .doubt = preset_doubt, .source = source};
}

}  // namespace

const Registry<Link>& links() {
  static const auto table = [] {
    Registry<Link> all("link");
    const auto add = [&](const std::string& name, double alpha, double bandwidth, const std::string& source) {
      all.add(name, source, preset(name, alpha, bandwidth, source));
    };
    add("nvlink4", 3e-6, 360e9, "NVLink 4 between GPUs: 450 GB/s one way, 80 % of it reached");
    add("ib-ndr", 4e-6, 400 * gigabit * infiniband_share, "InfiniBand NDR, 400 Gbit/s");
    add("ib-hdr", 4e-6, 200 * gigabit * infiniband_share, "InfiniBand HDR, 200 Gbit/s");
    add("ib-edr", 4e-6, 100 * gigabit * infiniband_share, "InfiniBand EDR, 100 Gbit/s");
    add("100gbe", 25e-6, 100 * gigabit * tcp_share, "100 Gbit/s Ethernet, TCP");
    add("25gbe", 25e-6, 25 * gigabit * tcp_share, "25 Gbit/s Ethernet, TCP");
    add("10gbe", 50e-6, 10 * gigabit * tcp_share, "10 Gbit/s Ethernet, TCP");
    add("1gbe", 50e-6, 1 * gigabit * tcp_share, "1 Gbit/s Ethernet, TCP");
    return all;
  }();
  return table;
}

Link parse_link(const std::string& text, const std::string& flag) {
  if (const auto* entry = links().find(lower(trimmed(text)))) return entry->value;
  const auto comma = text.find(',');
  if (comma == std::string::npos) throw bad_link(flag, text, "is no known link");
  const auto alpha = read(trimmed(text.substr(0, comma)), times);
  const auto bandwidth = read(trimmed(text.substr(comma + 1)), bandwidths);
  if (!alpha) throw bad_link(flag, text, "does not begin with a latency");
  if (!bandwidth) throw bad_link(flag, text, "does not end with a bandwidth and its unit");
  if (*alpha < 0.0 || *alpha > 10.0) throw bad_link(flag, text, "has a latency out of range (0 to 10 s)");
  if (!(*bandwidth >= 1.0 && *bandwidth <= 1e15)) {
    throw bad_link(flag, text, "has a bandwidth out of range (1 B/s to 10^15 B/s)");
  }
  return {.name = text, .alpha = *alpha, .beta = 1.0 / *bandwidth, .doubt = 0.0, .source = "as given"};
}

}  // namespace dtrain::predict
