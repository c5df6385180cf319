#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backend/replica.hpp"
#include "measure/step_record.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::train {

// The marks of one step on the device's time line, turned into a record after the device has passed them.
// Also stands between backward and the strategy, so that the time spent on collectives while backward goes on
// is told from backward itself.
//
//   begin, (input, forward, backward) x micro-steps, communicated, end
//
// A rank arrives at the collective at the end of backward, or at `arrived` where it first works for it.
//
// Where a micro-step is replayed, the marks that were recorded in it are passed again: `micro_step` keeps
// them by kind.
class Stamps final : public backend::GradientSink, public strategy::StepClock {
 public:
  // What tells one recorded micro-step from another.
  struct Kind {
    int step_images = 0;  // of all ranks
    int index = 0;
    int images = 0;
    bool first = true;
    bool last = true;
    auto operator<=>(const Kind&) const = default;
  };

  // Without `collective` nothing is stamped around buckets, and there is neither arrival nor communication.
  Stamps(backend::Replica& replica, bool collective, int micro_steps);

  // Called, on the clock of communication, before a step's first bucket goes to the strategy.
  void before_communication(std::function<void()> call) { before_communication_ = std::move(call); }

  void set_synchronizes_last(bool last) { synchronizes_last_ = last; }

  // Where ranks wait for each other all the way through a step, nobody arrives.
  void set_arrives(bool arrives) { arrives_ = arrives; }
  // A step is one program: no phase of it is seen.
  void set_fused(bool fused) { fused_ = fused; }

  // Without overlap, buckets are held back until send_held, which comes after backward.
  void set_overlap(bool overlap) { overlap_ = overlap; }
  void send_held();  // the rank arrives when this is done

  void begin(backend::GradientSink* strategy);
  // The calls from here to the next micro_step or to resolve belong to this one. If they do not come, the
  // micro-step was replayed.
  void micro_step(const Kind& kind);
  void input_ready();
  void forward_done() { turn(Part::backward); }
  void backward_done() { turn(collective_ && !synchronizes_last_ && !fused_ ? Part::wait : Part::update); }
  void communicated();
  void updated() { turn(Part::wait); }  // instead of communicated, where synchronizing comes last
  void arrived() { current_->arrival = replica_->mark(); }
  void end() { current_->end = replica_->mark(); }
  void bucket_ready(int bucket, backend::DeviceToken ready) override;
  config::Phase enter(config::Phase phase) override;

  // `communicated` is false for a step in which nothing was exchanged.
  void resolve(measure::StepRecord& record, bool communicated = true) const;
  int count() const;  // in the last step

 private:
  // What a stretch of a micro-step belongs to, from a mark to the next one.
  enum class Part { forward, backward, communication, wait, update, fused };
  struct Turn {
    backend::Mark begin;
    Part part = Part::forward;
  };
  struct Marks {
    std::vector<Turn> turns;  // the first is where input was ready; the last of all but the last micro-step
                              // is where the next one begins
    std::vector<backend::Mark> buckets;  // before and after each
    std::optional<backend::Mark> arrival;
    std::optional<backend::Mark> end;  // of the step
  };

  void turn(Part part) { current_->turns.push_back({replica_->mark(), part}); }
  static void add(measure::StepRecord& record, Part part, std::int64_t duration_ns);
  void add_turns(measure::StepRecord& record, const Marks& marks) const;
  void resolve_meeting(measure::StepRecord& record, const Marks& marks, bool communicated) const;

  backend::Replica* replica_;
  backend::GradientSink* strategy_ = nullptr;
  bool collective_;
  bool synchronizes_last_ = false;
  bool overlap_ = true;
  bool arrives_ = true;
  bool fused_ = false;
  std::vector<std::pair<int, backend::DeviceToken>> held_;
  std::function<void()> before_communication_;
  backend::Mark begin_;
  std::map<Kind, Marks> kinds_;
  std::vector<Marks*> step_;  // by micro-step
  Marks* current_ = nullptr;
};

}  // namespace dtrain::train
