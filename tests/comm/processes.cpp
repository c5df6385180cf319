#include "processes.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <thread>

#include "comm/spanning/local_exchange.hpp"

namespace dtrain::comm {

namespace {

std::vector<int> counted(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Runs each of them on a thread of its own.
std::vector<std::string> run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(i)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void expect_none(const std::vector<std::string>& errors) {
  for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_EQ(errors[i], "") << i << " of " << errors.size();
}

}  // namespace

std::vector<std::string> run_exchanges(int processes, const ExchangeBody& body, const std::string& algorithm,
                                       Seconds timeout) {
  const auto job = cluster::make_local_job(processes);
  return run_threads(processes, [&](int process) {
    cluster::Member& member = *job[static_cast<std::size_t>(process)];
    const auto exchange = exchanges().at("gloo").value({.member = &member,
                                                        .members = counted(processes),
                                                        .name = "test",
                                                        .algorithm = algorithm,
                                                        .timeout = timeout,
                                                        .busy_cores = true,
                                                        .progress = {}});
    body(*exchange, member);
  });
}

void expect_exchanges(int processes, const ExchangeBody& body, const std::string& algorithm) {
  expect_none(run_exchanges(processes, body, algorithm));
}

std::vector<std::string> run_spanning(const std::vector<int>& counts, const Body& body, SpanningConfig config,
                                      bool gloo) {
  const int processes = static_cast<int>(counts.size());
  const auto job = cluster::make_local_job(processes);
  const auto local = std::make_shared<LocalExchanges>(true);
  config.oversubscribed = true;
  config.process_of.clear();
  std::vector<int> first;
  for (int process = 0; process < processes; ++process) {
    first.push_back(static_cast<int>(config.process_of.size()));
    config.process_of.insert(config.process_of.end(),
                             static_cast<std::size_t>(counts[static_cast<std::size_t>(process)]), process);
  }
  std::vector<std::string> errors(config.process_of.size());
  const auto failed = run_threads(processes, [&](int process) {
    const auto at = static_cast<std::size_t>(process);
    auto exchange = gloo ? exchanges().at("gloo").value({.member = job[at].get(),
                                                         .members = counted(processes),
                                                         .name = "test",
                                                         .algorithm = "auto",
                                                         .timeout = config.timeout,
                                                         .busy_cores = true,
                                                         .progress = {}})
                         : local->join("test", processes, process);
    const auto group = make_spanning_group(std::move(exchange), config);
    const auto rank_errors = run_threads(counts[at], [&](int rank) {
      const auto communicator = group->join(first[at] + rank);
      body(*communicator);
    });
    std::ranges::copy(rank_errors, errors.begin() + first[at]);
  });
  expect_none(failed);
  return errors;
}

void expect_spanning(const std::vector<int>& counts, const Body& body, const SpanningConfig& config,
                     bool gloo) {
  expect_none(run_spanning(counts, body, config, gloo));
}

}  // namespace dtrain::comm
