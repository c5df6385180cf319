#include "ranks.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <thread>

namespace dtrain::comm {

std::vector<std::string> run_ranks(const LocalGroupConfig& config, const Body& body) {
  const auto group = local_communicators().at("shared_memory").value(config);
  std::vector<std::string> errors(static_cast<std::size_t>(config.size));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < config.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto communicator = group->join(rank);
        body(*communicator);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void expect_ranks(const LocalGroupConfig& config, const Body& body) {
  const auto errors = run_ranks(config, body);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank << " of " << errors.size();
  }
}

std::vector<float> values_of(int rank, int number, std::size_t size) {
  std::vector<float> values(size);
  std::uint32_t state =
      static_cast<std::uint32_t>(rank) * 7919U + static_cast<std::uint32_t>(number) * 104729U + 1U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    const auto exponent = static_cast<int>(state >> 28U) - 8;
    value = std::ldexp(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F, exponent);
  }
  return values;
}

std::vector<float> sum_of(int ranks, int number, std::size_t size) {
  std::vector<float> sum = values_of(0, number, size);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> other = values_of(rank, number, size);
    for (std::size_t i = 0; i < size; ++i) sum[i] += other[i];
  }
  return sum;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

}  // namespace dtrain::comm
