#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stats/summary.hpp"

// How every report writes a number, so that all show the same. Numbers that are not finite are "n/a".
namespace dtrain::report {

std::string count(std::int64_t n);                         // 122,570
std::string count(std::int64_t n, std::string_view noun);  // 1 step; 2,000 steps
std::string rate(double per_second);                       // 45.2; 2,031
std::string milliseconds(double seconds);  // of seconds, without unit: 0.123, 1.23, 12.3, 1,234
std::string percent(double percent);       // 93.4 %
std::string factor(double times);          // 1.83x
std::string flops(double per_something);   // 38.2 MFLOP, 1.21 GFLOP
std::string bytes(double n);               // 12.3 MiB
std::string duration(double seconds);      // 1.50 s, 2 min 05 s

// median [low, high]
std::string rate(const stats::Interval& interval);
std::string percent_of_one(const stats::Interval& share);
std::string factor(const stats::Interval& times);

// Shortens to `columns`, with an ellipsis where something was cut. Counts code points.
std::string shorten(const std::string& text, std::size_t columns);
std::size_t columns_of(const std::string& text);

}  // namespace dtrain::report
