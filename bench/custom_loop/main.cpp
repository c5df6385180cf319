// A training loop of one's own, written against dtrain's library, after TensorFlow's tutorial "Custom
// training with tf.distribute.Strategy". It takes the flags of `dtrain train`:
//
//   custom_loop --strategy mirrored --gpus 2 --model cnn --epochs 2

#include <dtrain/dtrain.hpp>

#include <cstdio>

namespace {

using dtrain::Batch;
using dtrain::ReduceOp;
using dtrain::Replica;

// What each replica does with its batch: its part of the mean loss over the whole step.
double train_step(Replica& replica, const Batch& batch) {
  replica.forward(batch);
  replica.backward(batch);              // gradients go to the others as they become ready
  if (!batch.last_of_step) return 0.0;  // with --accumulate, more batches of this step follow
  replica.apply_gradients();
  return replica.result().loss_sum / batch.step_images;
}

// All replicas together: the mean loss of a step.
double distributed_step(dtrain::Strategy& strategy, const dtrain::DistributedDataset& images) {
  double loss = 0.0;
  for (int micro_step = 0; micro_step < strategy.options().accumulate; ++micro_step) {
    loss += strategy.reduce(ReduceOp::sum, strategy.run(train_step, images));
  }
  return loss;
}

void train(dtrain::Strategy& strategy) {
  const auto& data = strategy.data();
  const auto train_images = strategy.distribute(data.train);
  std::printf("%d replicas, %d in sync, %d images a step\n", strategy.num_replicas(),
              strategy.num_replicas_in_sync(), strategy.global_batch());

  for (int epoch = 1; epoch <= strategy.options().epochs; ++epoch) {
    double total = 0.0;
    for (int step = 1; step <= train_images.steps_per_epoch(); ++step) {
      const double loss = distributed_step(strategy, train_images);
      if (!strategy.options().quiet) std::printf("step %d loss %.17g\n", step, loss);
      total += loss;
    }
    const auto test = strategy.evaluate(data.test ? data.test : data.train);
    std::printf("epoch %d loss %.6f test loss %.6f accuracy %.2f %%\n", epoch,
                total / train_images.steps_per_epoch(), test.loss, 100.0 * test.accuracy);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return dtrain::run_program([&] {
    const auto options = dtrain::read_options(argc, argv, "Trains with a loop of its own");
    if (options) {
      dtrain::Strategy strategy(*options);
      train(strategy);
    }
    return dtrain::ExitCode::fine;
  });
}
