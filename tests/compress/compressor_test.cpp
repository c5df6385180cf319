#include "comm/compressor.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "fake_exchange.hpp"
#include "values.hpp"

namespace dtrain::comm {
namespace {

using testing::ample;
using testing::infinity;
using testing::nan;
using testing::run_processes;

constexpr std::uint64_t seed = 5;

// What all processes have after a step, which must be the same bits on all.
class Agreement {
 public:
  explicit Agreement(int processes) : results_(static_cast<std::size_t>(processes)) {}

  // Returns what process 0 has.
  const std::vector<float>& check(Exchange& exchange, std::span<const float> mine) {
    auto& own = results_[static_cast<std::size_t>(exchange.rank())];
    own.assign(mine.begin(), mine.end());
    exchange.barrier(ample());
    EXPECT_EQ(testing::bits_of(own), testing::bits_of(results_[0])) << "process " << exchange.rank();
    exchange.barrier(ample());
    return results_[0];
  }

 private:
  std::vector<std::vector<float>> results_;
};

// Every process is given `values(rank, step)` in each of `steps` steps. Returns what arrived in every step.
using Values = std::function<std::vector<float>(int rank, int step)>;

std::vector<std::vector<float>> run_steps(const std::string& text, int processes, int steps,
                                          const Values& values) {
  std::vector<std::vector<float>> arrived;
  Agreement agreement(processes);
  run_processes(processes, [&](Exchange& exchange) {
    const auto compressor = make_compressor(text, seed);
    std::vector<float> data = values(exchange.rank(), 0);
    for (int step = 0; step < steps; ++step) {
      std::ranges::copy(values(exchange.rank(), step), data.begin());
      compressor->all_reduce(data, exchange, ample());
      const auto& same = agreement.check(exchange, data);
      if (exchange.rank() == 0) arrived.push_back(same);
    }
  });
  return arrived;
}

std::uint64_t given_seed(int rank, int step) { return static_cast<std::uint64_t>(rank * 1000 + step); }

std::vector<double> sum_of(const std::vector<std::vector<float>>& steps) {
  std::vector<double> sum(steps.front().size());
  for (const auto& step : steps) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += step[i];
  }
  return sum;
}

class EachCompressor : public ::testing::TestWithParam<std::string> {};

// Gradients of a few steps, then none: in the end all of them have arrived, and in every step the same bits
// on all processes.
TEST_P(EachCompressor, WhatOneStepLosesGoesWithTheNextOnes) {
  constexpr int given = 6;
  constexpr int empty = 130;
  for (int processes = 1; processes <= 5; ++processes) {
    for (const std::size_t size : {1U, 3U, 17U, 1003U, 4096U}) {
      const auto values = [&](int rank, int step) {
        return step < given ? testing::normal_values(size, given_seed(rank, step))
                            : std::vector<float>(size, 0.0F);
      };
      const int steps = processes == 1 ? given : given + empty;
      const auto sum = sum_of(run_steps(GetParam(), processes, steps, values));
      std::vector<double> expected(size);
      for (int rank = 0; rank < processes; ++rank) {
        for (int step = 0; step < given; ++step) {
          const auto mine = values(rank, step);
          for (std::size_t i = 0; i < size; ++i) expected[i] += mine[i];
        }
      }
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(sum[i], expected[i], 2e-5 * given * processes)
            << processes << " processes, " << size << " elements, element " << i;
      }
    }
  }
}

TEST_P(EachCompressor, MakesNothingOfZeros) {
  for (const auto& step :
       run_steps(GetParam(), 3, 4, [](int, int) { return std::vector<float>(1003, 0.0F); })) {
    for (const float value : step) ASSERT_EQ(value, 0.0F);
  }
}

TEST_P(EachCompressor, BeginsAfterZeros) {
  const auto values = [](int rank, int step) {
    return step == 0 ? std::vector<float>(1003, 0.0F) : testing::normal_values(1003, given_seed(rank, step));
  };
  const auto arrived = run_steps(GetParam(), 3, 2, values);
  EXPECT_TRUE(std::ranges::any_of(arrived[1], [](float value) { return value != 0.0F; }));
}

TEST_P(EachCompressor, ShowsWhatIsNotFiniteOnAllProcessesAndForgetsIt) {
  for (const float bad : {nan, infinity, -infinity}) {
    const auto values = [&](int rank, int step) {
      auto own = testing::normal_values(1003, given_seed(rank, step));
      if (rank == 1 && step == 2) std::fill(own.begin() + 400, own.end(), bad);
      return own;
    };
    const auto arrived = run_steps(GetParam(), 3, 6, values);
    const auto finite = [](float value) { return std::isfinite(value); };
    for (std::size_t step = 0; step < arrived.size(); ++step) {
      EXPECT_EQ(std::ranges::all_of(arrived[step], finite), step != 2) << "step " << step;
    }
  }
}

TEST_P(EachCompressor, IsTheSameInEveryRun) {
  const auto values = [](int rank, int step) { return testing::normal_values(500, given_seed(rank, step)); };
  const auto first = run_steps(GetParam(), 4, 3, values);
  const auto second = run_steps(GetParam(), 4, 3, values);
  for (std::size_t step = 0; step < first.size(); ++step) {
    EXPECT_EQ(testing::bits_of(first[step]), testing::bits_of(second[step])) << step;
  }
}

// Two buckets in turns are as each of them alone.
TEST_P(EachCompressor, RemembersForEachBufferApart) {
  const auto values = [](int rank, int step) { return testing::normal_values(300, given_seed(rank, step)); };
  const auto alone = run_steps(GetParam(), 2, 4, values);
  Agreement agreement(2);
  run_processes(2, [&](Exchange& exchange) {
    const auto compressor = make_compressor(GetParam(), seed);
    std::vector<float> one(300);
    std::vector<float> other(300);
    for (int step = 0; step < 4; ++step) {
      std::ranges::copy(values(exchange.rank(), step), one.begin());
      std::ranges::copy(values(exchange.rank(), step + 50), other.begin());
      compressor->all_reduce(one, exchange, ample());
      compressor->all_reduce(other, exchange, ample());
      agreement.check(exchange, other);
      EXPECT_EQ(testing::bits_of(one), testing::bits_of(alone[static_cast<std::size_t>(step)])) << step;
    }
  });
}

TEST_P(EachCompressor, LeavesAloneWhatOneProcessHas) {
  const auto values = testing::normal_values(100, 1);
  const auto arrived = run_steps(GetParam(), 1, 2, [&](int, int) { return values; });
  for (const auto& step : arrived) EXPECT_EQ(step, values);
}

TEST_P(EachCompressor, TakesABufferOfNothing) {
  EXPECT_EQ(run_steps(GetParam(), 3, 1, [](int, int) { return std::vector<float>(); }).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Compressions, EachCompressor,
                         ::testing::Values("fp16", "bf16", "topk:0.05", "topk:1", "powersgd:1", "powersgd:3"),
                         [](const auto& text) {
                           std::string name = text.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == ':' || c == '.'; }, '_');
                           return name;
                         });

std::uint64_t bytes_of_a_step(const std::string& text, int processes, std::size_t size) {
  std::uint64_t bytes = 0;
  run_processes(processes, [&](Exchange& exchange) {
    const auto compressor = make_compressor(text, seed);
    std::vector<float> data(size, 1.0F);
    compressor->all_reduce(data, exchange, ample());
    if (exchange.rank() == 0) bytes = exchange.bytes_sent();
  });
  return bytes;
}

TEST(BytesSent, AreHalfOfAnAllReduce) {
  for (const int processes : {2, 3, 5}) {
    const auto n = static_cast<std::uint64_t>(processes);
    for (const char* text : {"fp16", "bf16"}) {
      EXPECT_EQ(bytes_of_a_step(text, processes, 300), 2 * (n - 1) * 300 / n * 2) << text;
      EXPECT_EQ(bytes_of_a_step(text, processes, 1), 2 * (n - 1) * 2) << text;  // a shard of one element each
    }
  }
}

TEST(BytesSent, AreThoseOfTheElementsTaken) {
  EXPECT_EQ(bytes_of_a_step("topk:0.01", 3, 1000), 2U * 10 * 8);
  EXPECT_EQ(bytes_of_a_step("topk:0.01", 3, 10), 2U * 1 * 8);
  EXPECT_EQ(bytes_of_a_step("topk:1", 3, 10), 2U * 10 * 8);
}

TEST(BytesSent, AreThoseOfTheFactors) {
  // 100 x 100, in two all-reduces of rank x 100 floats.
  EXPECT_EQ(bytes_of_a_step("powersgd:4", 2, 10'000), 2U * 4 * 100 * 4);
  // 4 x 4: factors of rank 2 have 16 elements too, so the bucket goes whole.
  EXPECT_EQ(bytes_of_a_step("powersgd:2", 2, 16), 16U * 4);
  EXPECT_EQ(bytes_of_a_step("powersgd:1", 2, 16), 8U * 4);
}

// The first all-reduce of five times 60000 is more than a half-precision number can be.
TEST(Fp16, SendsASumThatIsTooLargeInParts) {
  const auto arrived = run_steps(
      "fp16", 5, 6, [](int, int step) { return std::vector<float>(3, step == 0 ? 60'000.0F : 0.0F); });
  for (std::size_t step = 0; step < 4; ++step) EXPECT_EQ(arrived[step][0], 65504.0F) << step;
  EXPECT_EQ(sum_of(arrived)[0], 300'000.0);
}

// A sum in half precision would stay at 2048.
TEST(Fp16, SumsInFp32) {
  const auto arrived = run_steps(
      "fp16", 3, 1, [](int rank, int) { return std::vector<float>(7, rank == 0 ? 2048.0F : 1.0F); });
  for (const float value : arrived[0]) EXPECT_EQ(value, 2050.0F);
}

TEST(TopK, SendsTheLargestOfEveryProcess) {
  const auto arrived = run_steps("topk:0.2", 2, 3, [](int rank, int step) {
    if (step > 0) return std::vector<float>(5, 0.0F);
    return rank == 0 ? std::vector<float>{1.0F, -5.0F, 3.0F, 0.0F, 0.0F}
                     : std::vector<float>{4.0F, -2.0F, 0.0F, 0.5F, 0.0F};
  });
  EXPECT_EQ(arrived[0], (std::vector<float>{4.0F, -5.0F, 0.0F, 0.0F, 0.0F}));
  EXPECT_EQ(arrived[1], (std::vector<float>{0.0F, -2.0F, 3.0F, 0.0F, 0.0F}));
  EXPECT_EQ(arrived[2], (std::vector<float>{1.0F, 0.0F, 0.0F, 0.5F, 0.0F}));
}

// A matrix of rank 2 goes through factors of rank 2 as it is.
TEST(PowerSgd, IsExactForGradientsOfItsRank) {
  constexpr std::size_t side = 30;
  const auto values = [](int rank, int) {
    const auto p = testing::normal_values(2 * side, 1);  // shared: the sum has the rank of each
    const auto q = testing::normal_values(2 * side, 2 + static_cast<std::uint64_t>(rank));
    std::vector<float> m(side * side);
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] = p[i / side] * q[i % side] + p[side + i / side] * q[side + i % side];
    }
    return m;
  };
  const auto arrived = run_steps("powersgd:2", 3, 1, values);
  for (std::size_t i = 0; i < side * side; ++i) {
    const float expected = values(0, 0)[i] + values(1, 0)[i] + values(2, 0)[i];
    ASSERT_NEAR(arrived[0][i], expected, 1e-4) << i;
  }
}

}  // namespace
}  // namespace dtrain::comm
