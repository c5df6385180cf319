#pragma once

#include <chrono>
#include <cstdint>

namespace dtrain {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

inline double seconds(Clock::duration d) { return std::chrono::duration_cast<Seconds>(d).count(); }
inline std::int64_t nanoseconds(TimePoint t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}
inline std::int64_t now_ns() { return nanoseconds(Clock::now()); }

// A point in time after which a wait gives up. Every blocking wait takes one.
class Deadline {
 public:
  static Deadline in(Seconds s) {
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(s), s);
  }
  bool passed() const { return Clock::now() >= at_; }
  TimePoint at() const { return at_; }
  Seconds allowed() const { return allowed_; }

 private:
  Deadline(TimePoint at, Seconds allowed) : at_(at), allowed_(allowed) {}
  TimePoint at_;
  Seconds allowed_;
};

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

}  // namespace dtrain
