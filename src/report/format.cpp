#include "report/format.hpp"

#include <cmath>

#include "base/text.hpp"

namespace dtrain::report {

namespace {

constexpr const char* none = "n/a";

// Three significant digits, thousands set apart.
std::string significant(double value) {
  if (!std::isfinite(value)) return none;
  const double size = std::abs(value);
  if (size >= 999.5 && size < 9e15) return count(std::llround(value));
  if (size >= 9e15) return fmt::format("{:.3g}", value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.9995 || size == 0.0) return fmt::format("{:.2f}", size == 0.0 ? 0.0 : value);
  return fmt::format("{:.3f}", value);
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return none;
  const double scale = std::pow(10.0, digits);
  const double rounded = std::round(value * scale) / scale;
  return fmt::format("{:.{}f}", rounded == 0.0 ? 0.0 : value, digits);  // never "-0.0"
}

std::string bracketed(const std::string& median, const std::string& low, const std::string& high) {
  return fmt::format("{} [{}, {}]", median, low, high);
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string count(std::int64_t n) {
  const std::string digits = std::to_string(n < 0 ? 0 - static_cast<std::uint64_t>(n) : n);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return n < 0 ? "-" + out : out;
}

std::string count(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", count(n), noun, n == 1 ? "" : "s");
}

std::string rate(double per_second) { return significant(per_second); }
std::string milliseconds(double seconds) { return significant(seconds * 1e3); }
std::string percent(double percent) { return std::isfinite(percent) ? fixed(percent, 1) + " %" : none; }
std::string factor(double times) { return std::isfinite(times) ? fixed(times, 2) + "x" : none; }

std::string flops(double n) {
  if (!std::isfinite(n)) return none;
  constexpr const char* units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  while (std::abs(n) >= 999.5 && unit + 1 < std::size(units)) {
    n /= 1e3;
    ++unit;
  }
  return significant(n) + " " + units[unit];
}

std::string bytes(double n) { return std::isfinite(n) ? format_bytes(n) : none; }

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return none;
  if (seconds < 90.0) return format_duration(seconds);
  const auto whole = std::llround(seconds);
  if (whole < 5400) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", count(whole / 3600), whole / 60 % 60);
}

std::string rate(const stats::Interval& i) { return bracketed(rate(i.median), rate(i.low), rate(i.high)); }

std::string percent_of_one(const stats::Interval& share) {
  return bracketed(percent(share.median * 100), fixed(share.low * 100, 1), fixed(share.high * 100, 1));
}

std::string factor(const stats::Interval& times) {
  return bracketed(factor(times.median), fixed(times.low, 2), fixed(times.high, 2));
}

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string shorten(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns) return text;
  constexpr std::string_view ellipsis = "...";
  const std::size_t keep = columns > ellipsis.size() ? columns - ellipsis.size() : 0;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && seen++ == keep) break;
  }
  return text.substr(0, end) + std::string(ellipsis.substr(0, columns));
}

}  // namespace dtrain::report
