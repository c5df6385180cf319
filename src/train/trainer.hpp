#pragma once

#include <atomic>
#include <optional>

#include "train/checkpoint.hpp"
#include "train/world.hpp"

namespace dtrain::train {

struct EpochReport {
  int epoch = 0;  // from 1
  int epochs = 0;
  double seconds = 0.0;  // of training in this epoch
  double images_per_second = 0.0;
  double training_loss = 0.0;  // mean of its steps
  Evaluation evaluation;
};

// Seen while training; called between epochs on the calling thread.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void epoch_begins(int epoch, int epochs, int steps) = 0;
  virtual void evaluation_begins(int epoch, std::size_t images) = 0;
  virtual void epoch_ended(const EpochReport& report) = 0;
};

struct TrainingOutcome {
  measure::RunSamples samples;         // one round an epoch; evaluations of earlier runs too when resumed
  int epochs = 0;                      // done, earlier ones too
  std::optional<bool> target_reached;  // none = no target was set
  std::optional<double> seconds_to_target;  // training only, evaluation left out
  bool interrupted = false;
};

// Trains for options.epochs, or until options.target_accuracy, evaluating after each epoch on the test set
// (the training set where there is none, which a note then says). Writes options.checkpoint after each epoch
// and goes on from options.resume. When stopped it keeps the epochs that were finished. Failures of the run
// are thrown; missing the target is an outcome.
TrainingOutcome train(World& world, const WorldConfig& config, TrainingObserver& observer);

}  // namespace dtrain::train
