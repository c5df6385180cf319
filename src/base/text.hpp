#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

std::string join(std::span<const std::string> words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

// The candidate with the smallest edit distance, if it is near enough to be a likely typing error.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// "12.3 ms", "1.5 s"; "12.3 MiB".
std::string format_duration(double seconds);
std::string format_bytes(double bytes);

}  // namespace dtrain
