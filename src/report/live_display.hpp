#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "measure/live.hpp"
#include "measure/protocol.hpp"
#include "report/console.hpp"

namespace dtrain::report {

// One moment of a measurement, as a person watches it.
struct LiveState {
  std::string run;             // "mirrored-4"
  std::string part = "round";  // what `index` of `count` counts: rounds, epochs
  int index = 1;
  int count = 1;
  bool warming_up = false;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // 0 = not known
  double images_per_second = 0.0;
  std::vector<double> finished_rates;  // of this run's finished rounds
  double loss = 0.0;
  std::optional<double> seconds_left;
};

// "mirrored-4  round 2/5  step 30/64  3,310 images/s (rounds so far 3,290 to 3,340)  loss 1.234  about 12 s
// left", cut at `width`.
std::string live_text(const LiveState& state, int width);

// Shows a measurement while it runs, on a file descriptor (stderr). On a terminal a thread of lowest priority
// redraws one line about 8 times a second from LiveStep and wipes it at the end; elsewhere a line is printed
// after every round and no thread is made. Construct it before the measuring threads pin themselves.
class LiveDisplay final : public measure::Observer {
 public:
  LiveDisplay(std::shared_ptr<const measure::LiveStep> live, int runs, int fd, bool quiet = false);
  ~LiveDisplay() override;
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;

  void round_begins(const config::RunPlan& plan, int round, int rounds, bool warming_up) override;
  void round_ended(const measure::Samples& samples, std::size_t run, int round, int rounds) override;
  void run_failed(const measure::Samples& samples, std::size_t run, int round, int rounds) override;

  // The same for training, whose stretches are epochs: `rate` in images/s.
  void epoch_begins(const std::string& run, int epoch, int epochs);
  void epoch_ended(double rate, const std::string& outcome);

  void message(const std::string& line);  // a whole line that stays, above the live one
  void stop();                            // wipes the line; later calls show nothing

 private:
  void begin(const std::string& run, const std::string& part, int index, int count, bool warming_up);
  void end(double rate, const std::string& outcome);
  void redraw_until_stopped();
  LiveState state_now() const;
  void write(const std::string& text) const;
  void wipe();

  std::shared_ptr<const measure::LiveStep> live_;
  int runs_ = 1;
  int fd_ = 2;
  bool quiet_ = false;
  ConsoleStyle style_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  bool active_ = false;  // inside a stretch
  bool drawn_ = false;   // a live line is on the screen
  LiveState now_;
  std::map<std::string, std::vector<double>> rates_;  // by run, of finished stretches
  std::int64_t stretch_begin_ns_ = 0;
  double finished_seconds_ = 0.0;
  int finished_ = 0;
  std::thread thread_;
};

}  // namespace dtrain::report
