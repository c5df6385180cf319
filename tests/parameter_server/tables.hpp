#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "parameter_server/server.hpp"

namespace dtrain::testing {

inline Deadline soon() { return Deadline::in(Seconds(20)); }

// Plain gradient descent with a rate of 1: weights change by minus the gradient.
inline kernels::OptimizerStep descent(double rate = 1.0) { return {.learning_rate = rate, .momentum = 0.0}; }

parameter_server::TableConfig table(std::size_t size, int workers, parameter_server::Policy policy = {},
                                    const std::string& optimizer = "sgd");

// A worker whose gradients are all the same number, with weights of its own.
class Worker {
 public:
  Worker(std::unique_ptr<parameter_server::Client> client, std::size_t size);
  void initialise(float value);
  parameter_server::Push push(float gradient, int images = 1, int step_images = 1,
                              const kernels::OptimizerStep& update = descent(),
                              const Deadline& deadline = soon());
  float weight() const;  // all of them, which must be the same

  std::unique_ptr<parameter_server::Client> client;
  std::vector<float> weights;
  std::vector<float> gradients;
};

// All workers of a table in this process, initialised with worker 0's `value`.
std::vector<Worker> local_workers(parameter_server::Local& local, const parameter_server::TableConfig& config,
                                  float value);

// Each on a thread of its own; what they throw, by worker.
std::vector<std::exception_ptr> at_once(int threads, const std::function<void(int)>& work);
void all_at_once(int threads, const std::function<void(int)>& work);  // none may throw
std::string message_of(const std::exception_ptr& error);

}  // namespace dtrain::testing
