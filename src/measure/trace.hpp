#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "measure/json_array_file.hpp"
#include "measure/step_record.hpp"

namespace dtrain::measure {

struct TraceLimits {
  std::size_t events = 200'000;             // in the whole file
  std::size_t events_per_stretch = 20'000;  // so that a run of short steps leaves room for the others
};

// Writes measured stretches as a timeline in the Chrome trace event format (the array form, one event a
// line), to be opened in Perfetto or chrome://tracing. A run is a process, a rank a thread. Called between
// stretches, never on the clock. Once a limit is reached, the rest is left out and an event in its place says
// so.
//
// A step holds its phases as complete events. Durations are those measured. Begin and end of the step,
// arrival and the end of communication stand where they were stamped; phases before the arrival follow one
// another from the step's begin, because their order among micro-steps is not recorded.
class TraceWriter {
 public:
  explicit TraceWriter(const std::filesystem::path& path, TraceLimits limits = {});
  void append(const std::string& run, int round, const StretchRecord& stretch);

 private:
  JsonArrayFile file_;
  TraceLimits limits_;
  std::map<std::string, int> processes_;
  std::size_t events_ = 0;
  std::int64_t origin_ns_ = 0;  // of the first stretch
  bool stopped_ = false;
};

}  // namespace dtrain::measure
