#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/member.hpp"

namespace dtrain::cluster {

// What a member asks of the board, whichever way the question takes.
struct Set {
  std::string key;
  std::string value;
};
struct Get {
  std::string key;
};
struct TryGet {
  std::string key;
};
struct Erase {
  std::string key;
};
struct Gather {
  std::string name;
  std::string value;
  std::vector<int> ranks;
};
struct FirstBehind {
  Progress progress = 0;
  std::vector<int> ranks;
};
struct Fail {
  int rank = 0;
  std::string reason;
};
struct Leave {};
struct ReadClock {};
using Question = std::variant<Set, Get, TryGet, Erase, Gather, FirstBehind, Fail, Leave, ReadClock>;

struct Answer {
  std::vector<std::string> values;  // Get, Gather: all; TryGet: one or none
  std::optional<int> rank;          // FirstBehind
  std::int64_t clock_ns = 0;        // ReadClock
  std::string error;                // the question was wrong; the job goes on
  std::optional<Loss> loss;         // the job has ended
};
using Reply = std::function<void(Answer)>;

inline constexpr const char* job_is_over = "the job is over";  // to whoever asks after all have left
inline constexpr std::size_t longest_name = 1024;
inline constexpr std::size_t largest_message = std::size_t{16} << 20U;
// Of a value, or of all values that come together: a message holds it with room for its frame.
inline constexpr std::size_t largest_value = largest_message - (std::size_t{1} << 20U);
inline constexpr std::size_t most_held = std::size_t{256} << 20U;

}  // namespace dtrain::cluster
