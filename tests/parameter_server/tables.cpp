#include "tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace dtrain::testing {

using parameter_server::Push;

parameter_server::TableConfig table(std::size_t size, int workers, parameter_server::Policy policy,
                                    const std::string& optimizer) {
  return {.name = "run", .size = size, .optimizer = optimizer, .workers = workers, .policy = policy};
}

Worker::Worker(std::unique_ptr<parameter_server::Client> to, std::size_t size)
    : client(std::move(to)), weights(size, -7.0F), gradients(size) {}

void Worker::initialise(float value) {
  std::ranges::fill(weights, value);
  client->initialise(weights, soon());
}

Push Worker::push(float gradient, int images, int step_images, const kernels::OptimizerStep& update,
                  const Deadline& deadline) {
  std::ranges::fill(gradients, gradient);
  return client->push_pull(
      {.values = gradients, .images = images, .step_images = step_images, .update = update}, weights,
      deadline);
}

float Worker::weight() const {
  const auto [low, high] = std::ranges::minmax_element(weights);
  EXPECT_EQ(*low, *high);
  return *low;
}

std::vector<Worker> local_workers(parameter_server::Local& local, const parameter_server::TableConfig& config,
                                  float value) {
  std::vector<Worker> workers;
  for (int worker = 0; worker < config.workers; ++worker) {
    workers.emplace_back(local.connect(worker), config.size);
    workers.back().initialise(worker == 0 ? value : -1.0F);
  }
  return workers;
}

std::vector<std::exception_ptr> at_once(int threads, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      try {
        work(thread);
      } catch (...) {
        errors[static_cast<std::size_t>(thread)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  return errors;
}

void all_at_once(int threads, const std::function<void(int)>& work) {
  for (const std::exception_ptr& error : at_once(threads, work)) {
    EXPECT_FALSE(error) << message_of(error);
  }
}

std::string message_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

}  // namespace dtrain::testing
