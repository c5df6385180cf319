#include "report/live_display.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "report/console_text.hpp"
#include "report/format.hpp"

namespace dtrain::report {

namespace {

constexpr std::chrono::milliseconds period{125};
constexpr std::string_view wipe_line = "\r\x1b[2K";

// Runs only where nobody else wants the core, so that a measured replica is not moved aside.
void take_lowest_priority() {
  sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none);  // a courtesy: no harm where it is refused
}

double rate_of(std::int64_t images, std::int64_t begin_ns, std::int64_t end_ns) {
  return begin_ns > 0 && end_ns > begin_ns
             ? static_cast<double>(images) * 1e9 / static_cast<double>(end_ns - begin_ns)
             : 0.0;
}

std::string spread_text(const std::vector<double>& rates, const std::string& part) {
  if (rates.empty()) return {};
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  if (rates.size() == 1) return fmt::format(" (last {} {})", part, rate(rates.front()));
  return fmt::format(" ({}s so far {} to {})", part, rate(*low), rate(*high));
}

}  // namespace

std::string live_text(const LiveState& s, int width) {
  std::string text = fmt::format("{}  {} {}/{}", printable(s.run), s.part, s.index, s.count);
  if (s.warming_up) {
    text += fmt::format("  warming up, step {}", count(s.step));
  } else {
    text += s.steps > 0 ? fmt::format("  step {}/{}", count(s.step), count(s.steps))
                        : fmt::format("  step {}", count(s.step));
    if (s.images_per_second > 0.0) {
      text +=
          fmt::format("  {} images/s{}", rate(s.images_per_second), spread_text(s.finished_rates, s.part));
    }
  }
  if (s.step > 0) text += fmt::format("  loss {:.4f}", s.loss);
  if (s.seconds_left) {
    const double left = std::max(1.0, std::round(*s.seconds_left));
    text += fmt::format("  about {} left", left < 90.0 ? fmt::format("{:.0f} s", left) : duration(left));
  }
  return shorten(text, static_cast<std::size_t>(std::max(width - 1, 10)));
}

LiveDisplay::LiveDisplay(std::shared_ptr<const measure::LiveStep> live, int runs, int fd, bool quiet)
    : live_(std::move(live)), runs_(runs), fd_(fd), quiet_(quiet), style_(console_style(fd)) {
  if (style_.terminal && !quiet_) thread_ = std::thread([this] { redraw_until_stopped(); });
}

LiveDisplay::~LiveDisplay() { stop(); }

void LiveDisplay::round_begins(const config::RunPlan& plan, int round, int rounds, bool warming_up) {
  begin(plan.id, "round", round, rounds, warming_up);
}

void LiveDisplay::round_ended(const measure::Samples& samples, std::size_t run, int, int) {
  const auto& round = samples.runs.at(run).rounds.back();
  end(static_cast<double>(round.images) / round.seconds, {});
}

void LiveDisplay::run_failed(const measure::Samples& samples, std::size_t run, int, int) {
  end(0.0, "failed: " + samples.runs.at(run).failure);
}

void LiveDisplay::epoch_begins(const std::string& run, int epoch, int epochs) {
  begin(run, "epoch", epoch, epochs, false);
}

void LiveDisplay::epoch_ended(double rate, const std::string& outcome) { end(rate, outcome); }

void LiveDisplay::begin(const std::string& run, const std::string& part, int index, int count,
                        bool warming_up) {
  const std::lock_guard lock(mutex_);
  const bool goes_on = active_ && now_.run == run && now_.index == index;  // the round after its warm-up
  if (!goes_on) stretch_begin_ns_ = now_ns();
  now_.run = run;
  now_.part = part;
  now_.index = index;
  now_.count = count;
  now_.warming_up = warming_up;
  active_ = true;
}

void LiveDisplay::end(double images_per_second, const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  if (!active_ || stopped_) return;
  active_ = false;
  finished_seconds_ += static_cast<double>(now_ns() - stretch_begin_ns_) * 1e-9;
  ++finished_;
  if (images_per_second > 0.0) rates_[now_.run].push_back(images_per_second);
  const bool plain_line = !style_.terminal || !outcome.empty();
  if (quiet_ || !plain_line) return;
  wipe();
  std::string line = fmt::format("{}  {} {}/{}", printable(now_.run), now_.part, now_.index, now_.count);
  if (images_per_second > 0.0) line += fmt::format("  {} images/s", rate(images_per_second));
  if (!outcome.empty()) line += "  " + printable(outcome);
  write(line + "\n");
}

void LiveDisplay::message(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (quiet_) return;
  wipe();
  write(printable(line) + "\n");
}

void LiveDisplay::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wipe();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

LiveState LiveDisplay::state_now() const {
  LiveState state = now_;
  state.step = live_->steps.load(std::memory_order_relaxed);
  state.steps = live_->planned.load(std::memory_order_relaxed);
  state.loss = live_->loss.load(std::memory_order_relaxed);
  const std::int64_t begin_ns = live_->begin_ns.load(std::memory_order_relaxed);
  state.images_per_second = rate_of(live_->images.load(std::memory_order_relaxed), begin_ns, now_ns());
  if (const auto rates = rates_.find(state.run); rates != rates_.end()) state.finished_rates = rates->second;
  if (finished_ > 0) {
    const double mean = finished_seconds_ / finished_;
    const double gone = static_cast<double>(now_ns() - stretch_begin_ns_) * 1e-9;
    const int stretches = runs_ * now_.count;
    state.seconds_left = mean * (stretches - finished_) - std::min(gone, mean);
  }
  return state;
}

void LiveDisplay::redraw_until_stopped() {
  take_lowest_priority();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stopped_; })) {
    if (!active_) continue;
    const std::string text = live_text(state_now(), console_style(fd_).width);
    write(std::string(wipe_line) + paint(text, Ink::dim, style_));
    drawn_ = true;
  }
}

void LiveDisplay::wipe() {
  if (drawn_) write(std::string(wipe_line));
  drawn_ = false;
}

void LiveDisplay::write(const std::string& text) const {
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a closed terminal is no reason to stop measuring
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace dtrain::report
