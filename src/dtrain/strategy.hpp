#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "dtrain/options.hpp"
#include "dtrain/replica.hpp"
#include "model/model.hpp"

namespace dtrain {

enum class ReduceOp { sum, mean };

// What a per-replica function returned, by replica; of the replicas of this worker.
template <class Value>
using PerReplica = std::vector<Value>;

// A data set that is dealt out to the replicas: made by Strategy::distribute, and of use as long as that is.
class DistributedDataset {
 public:
  int steps_per_epoch() const { return steps_per_epoch_; }
  // What each replica takes in an epoch: steps, times --accumulate.
  int batches_per_epoch() const { return batches_per_epoch_; }

 private:
  friend class Strategy;
  friend class DrivenReplica;
  std::size_t number_ = 0;
  int steps_per_epoch_ = 0;
  int batches_per_epoch_ = 0;
};

struct Evaluation {
  double loss = 0.0;  // mean over the images
  double accuracy = 0.0;
};

// A strategy with its replicas, for a training loop of one's own, after TensorFlow's tf.distribute.Strategy:
//
//   Strategy strategy(options);
//   const auto train = strategy.distribute(strategy.data().train);
//   for (int i = 0; i < train.batches_per_epoch(); ++i) {
//     const auto losses = strategy.run([](Replica& replica, const Batch& batch) {
//       replica.forward(batch);
//       replica.backward(batch);
//       replica.apply_gradients();
//       return replica.result().loss_sum / batch.step_images;
//     }, train);
//     total += strategy.reduce(ReduceOp::sum, losses);
//   }
//
// Replicas live as long as it does, each on a thread that is pinned to its cores. Calls come from one thread,
// and there is one strategy at a time. Under a launcher, or a multi-worker TF_CONFIG with strategy
// multi-worker, every process runs the same loop. Strategies that cut the model into parts have no whole
// replica to give: usage error.
//
// What a per-replica function throws comes out of run, with step and rank in front; the other replicas' waits
// end. Every later call throws it again.
class Strategy {
 public:
  // Finds devices, plans, opens the data, builds the replicas. Throws what `dtrain train` would for these
  // options.
  explicit Strategy(Options options);
  ~Strategy();

  // Replicas whose gradients make one update; 1 for single and for asynchronous strategies.
  int num_replicas_in_sync() const;
  int num_replicas() const;        // of all workers
  int global_batch() const;        // images a step, over all replicas
  const Options& options() const;  // as used: defaults filled in
  const model::Model& model() const;
  const datasets::Cifar10& data() const;  // what --data says

  // Images in the order and shares of `dtrain train`: shuffled, augmented and prefetched as the options say.
  DistributedDataset distribute(const std::shared_ptr<const datasets::Dataset>& dataset);

  // Calls function(replica) for every replica, on its thread; returns what they returned when all have.
  template <class Function>
  requires std::is_invocable_v<const Function&, Replica&>
  auto run(const Function& function) {
    return collect<std::invoke_result_t<const Function&, Replica&>>(function);
  }
  // The same with the next batch: function(replica, batch).
  template <class Function>
  requires std::is_invocable_v<const Function&, Replica&, const Batch&>
  auto run(const Function& function, const DistributedDataset& dataset) {
    return collect<std::invoke_result_t<const Function&, Replica&, const Batch&>>(
        [&](Replica& replica) { return function(replica, replica.next(dataset)); });
  }

  // Over the replicas of all workers, each of which has to call it.
  template <class Value>
  double reduce(ReduceOp operation, const PerReplica<Value>& values) {
    static_assert(std::is_arithmetic_v<Value>, "reduce is of numbers");
    return reduce_values(operation, {values.begin(), values.end()});
  }

  // Loss and accuracy over all images, in inference mode with the batch statistics of replica 0, each replica
  // doing its share.
  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& dataset);

  // Of replica `id`, which must be of this worker, in the model's canonical order. Each worker has to call
  // it.
  std::vector<float> weights(int id = 0);

 private:
  template <class Value, class Function>
  auto collect(const Function& function) {
    if constexpr (std::is_void_v<Value>) {
      on_replicas([&](Replica& replica, std::size_t) { function(replica); });
    } else {
      static_assert(!std::is_same_v<Value, bool>, "return an int: threads cannot write bits side by side");
      PerReplica<Value> values(local_replicas());
      on_replicas([&](Replica& replica, std::size_t index) { values[index] = function(replica); });
      return values;
    }
  }
  using Job = std::function<void(Replica&, std::size_t index)>;
  void on_replicas(const Job& job);
  std::size_t local_replicas() const;
  double reduce_values(ReduceOp operation, std::vector<double> values);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
