#include <cstddef>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/compress/half.hpp"
#include "comm/compress/power_sgd.hpp"
#include "comm/compress/top_k.hpp"
#include "comm/compressor.hpp"
#include "config/options.hpp"

namespace dtrain::comm {
namespace {

constexpr int max_rank = 256;  // of PowerSGD's factors

struct Parts {
  std::string name;
  std::string argument;
  bool has_argument = false;
};

Parts take_apart(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {text, "", false};
  return {text.substr(0, colon), text.substr(colon + 1), true};
}

std::string share_argument(const std::string& argument, const std::string& flag) {
  const double share = config::parse_rate(argument, flag + " topk");
  if (share == 0.0) {
    throw usage_error(fmt::format("{} topk: '{}' sends nothing", flag, argument),
                      "give the share of elements to send, above 0 and at most 1, such as topk:0.01");
  }
  return fmt::format("{}", share);
}

std::string rank_argument(const std::string& argument, const std::string& flag) {
  return std::to_string(config::parse_integer(argument, flag + " powersgd", 1, max_rank));
}

std::string no_argument(const std::string& argument, const std::string&) { return argument; }

template <kernels::HalfFormat format>
std::unique_ptr<Compressor> make_half(const std::string&, std::uint64_t) {
  return make_half_compressor(format);
}

std::unique_ptr<Compressor> make_top_k(const std::string& argument, std::uint64_t) {
  return make_top_k_compressor(config::parse_rate(argument, "--compress"));
}

std::unique_ptr<Compressor> make_power_sgd(const std::string& argument, std::uint64_t seed) {
  return make_power_sgd_compressor(config::parse_integer(argument, "--compress", 1, max_rank), seed);
}

std::unique_ptr<Compressor> make_none(const std::string&, std::uint64_t) { return nullptr; }

const Registry<Compression>::Entry& find(const Parts& parts, const std::string& flag) {
  if (const auto* entry = compressions().find(parts.name)) return *entry;
  const auto known = compressions().names();
  const auto close = nearest(parts.name, known);
  throw usage_error(
      fmt::format("{}: unknown compression '{}'", flag, parts.name),
      (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", "));
}

// The canonical spelling of the argument.
std::string check_argument(const Parts& parts, const Registry<Compression>::Entry& entry,
                           const std::string& flag) {
  const Compression& compression = entry.value;
  if (compression.example.empty() && parts.has_argument) {
    throw usage_error(
        fmt::format("{}: {} takes no number, and '{}' was given", flag, entry.name, parts.argument),
        fmt::format("write {} {}", flag, entry.name));
  }
  if (!compression.example.empty() && parts.argument.empty()) {
    throw usage_error(fmt::format("{}: {} lacks its number", flag, entry.name),
                      fmt::format("write it as {}:{}", entry.name, compression.example));
  }
  return compression.parse_argument(parts.argument, flag);
}

}  // namespace

const Registry<Compression>& compressions() {
  static const auto table = [] {
    Registry<Compression> all("compression");
    all.add("none", "gradients are summed as they are", {"", &no_argument, &make_none});
    all.add("fp16", "16 bits an element, half precision",
            {"", &no_argument, &make_half<kernels::HalfFormat::fp16>});
    all.add("bf16", "16 bits an element, bfloat16",
            {"", &no_argument, &make_half<kernels::HalfFormat::bf16>});
    all.add("topk", "topk:R, the share R of elements that is largest, as index and value",
            {"0.01", &share_argument, &make_top_k});
    all.add("powersgd", "powersgd:R, a product of two matrices of rank R",
            {"4", &rank_argument, &make_power_sgd});
    return all;
  }();
  return table;
}

std::unique_ptr<Compressor> make_compressor(const std::string& text, std::uint64_t seed) {
  const Parts parts = take_apart(text);
  const auto& entry = find(parts, "--compress");
  return entry.value.make(check_argument(parts, entry, "--compress"), seed);
}

std::string parse_compression(const std::string& text, const std::string& flag) {
  const Parts parts = take_apart(text);
  const auto& entry = find(parts, flag);
  const std::string argument = check_argument(parts, entry, flag);
  return argument.empty() ? entry.name : entry.name + ":" + argument;
}

}  // namespace dtrain::comm
