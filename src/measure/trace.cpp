#include "measure/trace.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace dtrain::measure {

namespace {

// Events of one stretch as text, one a line.
class EventList {
 public:
  EventList(int process, std::int64_t origin_ns) : process_(process), origin_ns_(origin_ns) {}

  // Phases that took no time are left out.
  void complete(const char* name, std::size_t rank, std::int64_t begin_ns, std::int64_t duration_ns,
                const std::string& arguments = {}) {
    if (duration_ns <= 0) return;
    begin_line();
    fmt::format_to(std::back_inserter(text_),
                   R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})", name, process_,
                   rank, microseconds(begin_ns - origin_ns_), microseconds(duration_ns), arguments);
  }

  void instant(const std::string& name, std::size_t rank, std::int64_t at_ns, const char* scope) {
    begin_line();
    fmt::format_to(std::back_inserter(text_),
                   R"({{"name":"{}","ph":"i","s":"{}","pid":{},"tid":{},"ts":{:.3f}}})", name, scope,
                   process_, rank, microseconds(at_ns - origin_ns_));
  }

  void name(const char* kind, std::size_t rank, const std::string& text) {
    begin_line();
    fmt::format_to(std::back_inserter(text_),
                   R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, process_, rank,
                   nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }

  std::size_t count() const { return count_; }
  std::string& text() { return text_; }

 private:
  static double microseconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }
  void begin_line() {
    if (count_++ > 0) text_ += ",\n";
  }

  int process_;
  std::int64_t origin_ns_;
  std::string text_;
  std::size_t count_ = 0;
};

constexpr std::size_t most_events_per_record = 9;

// The last arrival of a step; 0 unless every rank stamped one.
std::int64_t last_arrival(const StretchRecord& stretch, std::size_t step) {
  std::int64_t last = 0;
  for (const auto& records : stretch.ranks) {
    if (records[step].arrival_ns == 0) return 0;
    last = std::max(last, records[step].arrival_ns);
  }
  return last;
}

std::string arguments_of(const StepRecord& r, int round, std::size_t step) {
  return fmt::format(R"(,"args":{{"round":{},"step":{},"images":{},"skipped":{}}})", round, step, r.images,
                     r.skipped);
}

void add_record(EventList& events, const StepRecord& r, std::size_t rank, int round, std::size_t step,
                std::int64_t last_ns) {
  events.complete("step", rank, r.begin_ns, r.end_ns - r.begin_ns, arguments_of(r, round, step));
  std::int64_t at = r.begin_ns;
  const auto follow = [&](const char* name, std::int64_t duration_ns, const char* arguments = "") {
    events.complete(name, rank, at, duration_ns, arguments);
    at += duration_ns;
  };
  follow("input", r.input_ns);
  follow("forward", r.forward_ns);
  follow("backward", r.backward_ns);
  follow("communication", r.communication_in_backward_ns, R"(,"args":{"within":"backward"})");
  if (r.fused_ns > 0) follow("fused", r.fused_ns);
  if (r.arrival_ns != 0) {
    events.instant("arrival", rank, r.arrival_ns, "t");
    events.complete("communication", rank, r.arrival_ns, r.communicated_ns - r.arrival_ns);
    events.complete("straggler wait", rank, r.arrival_ns,
                    std::min(last_ns, r.communicated_ns) - r.arrival_ns);
  }
  events.complete("update", rank, r.end_ns - r.update_ns, r.update_ns);
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& path, TraceLimits limits)
    : file_(path), limits_(limits) {}

void TraceWriter::append(const std::string& run, int round, const StretchRecord& stretch) {
  if (stopped_ || stretch.ranks.empty() || stretch.ranks.front().empty()) return;
  if (processes_.empty()) origin_ns_ = stretch.begin_ns;
  const auto [process, added] = processes_.try_emplace(run, static_cast<int>(processes_.size()) + 1);
  EventList events(process->second, origin_ns_);
  if (added) events.name("process_name", 0, run);
  for (std::size_t rank = 0; added && rank < stretch.ranks.size(); ++rank) {
    events.name("thread_name", rank, fmt::format("rank {}", rank));
  }

  const std::size_t steps = stretch.ranks.front().size();
  const std::size_t room = limits_.events - std::min(limits_.events, events_);
  const std::size_t most = std::min(room, limits_.events_per_stretch);
  const std::size_t shown = std::min(steps, most / (most_events_per_record * stretch.ranks.size()));
  for (std::size_t step = 0; step < shown; ++step) {
    const std::int64_t last_ns = last_arrival(stretch, step);
    for (std::size_t rank = 0; rank < stretch.ranks.size(); ++rank) {
      add_record(events, stretch.ranks[rank][step], rank, round, step, last_ns);
    }
  }
  if (shown < steps) {
    stopped_ = room <= limits_.events_per_stretch;
    const std::int64_t at = shown > 0 ? stretch.ranks.front()[shown - 1].end_ns : stretch.begin_ns;
    const std::string what = stopped_ ? fmt::format("trace ends here: limit of {} events", limits_.events)
                                      : fmt::format("{} of {} steps left out", steps - shown, steps);
    events.instant(what, 0, at, "g");
  }
  events_ += events.count();
  file_.append(events.text());
}

}  // namespace dtrain::measure
