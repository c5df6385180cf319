#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "backend/replica.hpp"
#include "measure/step_record.hpp"

namespace dtrain::train {

// The marks of one step on the device's time line, turned into a record after the device has passed them.
// Also stands between backward and the strategy, so that the time spent on collectives while backward goes on
// is told from backward itself.
//
//   begin, (input, forward, backward) x micro-steps, communicated, end
class Stamps final : public backend::GradientSink {
 public:
  // Without `collective` nothing is stamped around buckets, and there is neither arrival nor communication.
  Stamps(backend::Replica& replica, bool collective, int micro_steps);

  // Called, on the clock of communication, before a step's first bucket goes to the strategy.
  void before_communication(std::function<void()> call) { before_communication_ = std::move(call); }

  void begin(backend::GradientSink* strategy);
  void input_ready() { mark(); }
  void forward_done() { mark(); }
  void backward_done() { mark(); }
  void communicated();
  void end() { mark(); }
  void bucket_ready(int bucket, backend::DeviceToken ready) override;

  void resolve(measure::StepRecord& record) const;
  int count() const { return static_cast<int>(marks_.size() + sink_marks_.size()); }

 private:
  void mark() { marks_.push_back(replica_->mark()); }

  backend::Replica* replica_;
  backend::GradientSink* strategy_ = nullptr;
  bool collective_;
  std::function<void()> before_communication_;
  std::vector<backend::Mark> marks_;
  std::vector<backend::Mark> sink_marks_;  // before and after each bucket
};

}  // namespace dtrain::train
