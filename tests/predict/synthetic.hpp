#pragma once

#include <vector>

#include "predict/prediction.hpp"
#include "report/result.hpp"

namespace dtrain::predict {

inline constexpr double ms = 1e-3;
inline constexpr double cnn_bytes = 122'570 * 4.0;

// What a made-up machine does.
struct Truth {
  double forward = 10 * ms;
  double backward = 18 * ms;
  double update = 2 * ms;
  double alpha = 1 * ms;       // a message between workers
  double beta = 1.0 / 12.5e6;  // seconds a byte
  LevelLaw law = ring();
  double step_noise = 0.0;   // of a rank's computation in one step, standard deviation as a share
  double round_noise = 0.0;  // of everything in a round, of all ranks
  bool workers = true;       // one a replica, on hosts of their own; else all in one process
  int cores = 64;
  config::Scaling scaling = config::Scaling::weak;
  int batch = 64;      // images a replica; under strong scaling of the step
  double fixed = 0.0;  // seconds of a step that do not shrink with the images

  std::string model = "cnn";
  double bucket_mb = 25.0;  // buckets hide behind backward where there are several

  double computation(int replicas) const;
  double communication(int replicas) const;
  double step(int replicas) const { return computation(replicas) + communication(replicas); }
};

// A result as a bench of these N would leave it, on a machine like that.
report::Result make_result(const Truth& truth, const std::vector<int>& replicas, int rounds = 5,
                           std::uint64_t seed = 1);

// A sweep of all-reduces on it.
Sweep make_sweep(const Truth& truth, int workers);

inline Request ask(std::vector<int> replicas) {
  Request request;
  request.replicas = std::move(replicas);
  return request;
}

}  // namespace dtrain::predict
