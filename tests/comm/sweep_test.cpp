#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/sweep.hpp"
#include "ranks.hpp"

namespace dtrain::comm {
namespace {

// Everything goes to a real one, but for a value that an all-reduce leaves wrong on one rank.
class Sabotaged final : public Communicator {
 public:
  Sabotaged(Communicator& real, std::size_t element) : real_(real), element_(element) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) override {
    data_ = data;
    return real_.all_reduce(data, ready);
  }
  void progress() override { real_.progress(); }
  void wait(Ticket ticket, const Deadline& deadline) override {
    real_.wait(ticket, deadline);
    if (real_.rank() == 1 && element_ < data_.size()) data_[element_] += 1.0F;
  }
  void reduce_scatter(std::span<float> data, const Deadline& d) override { real_.reduce_scatter(data, d); }
  void all_gather(std::span<float> data, const Deadline& d) override { real_.all_gather(data, d); }
  void broadcast(std::span<float> data, int root, const Deadline& d) override {
    real_.broadcast(data, root, d);
  }
  void barrier(const Deadline& d) override { real_.barrier(d); }
  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& d) override {
    return real_.all_gather_values(mine, d);
  }
  void send(std::span<const float> data, int to, const Deadline& d) override { real_.send(data, to, d); }
  void receive(std::span<float> data, int from, const Deadline& d) override { real_.receive(data, from, d); }
  void abort(const std::string& reason) override { real_.abort(reason); }
  std::unique_ptr<Communicator> split(int colour, const Deadline& d) override {
    return real_.split(colour, d);
  }
  std::uint64_t bytes_sent() const override { return real_.bytes_sent(); }

 private:
  Communicator& real_;
  std::size_t element_;
  std::span<float> data_;
};

SweepConfig quick(bool exact = true) {
  return {
      .sizes = {4, 1024, 100000}, .time_per_size = Seconds(0.001), .fewest = 4, .most = 5, .exact = exact};
}

TEST(Sweep, TimesEverySizeAndFindsNothingWrong) {
  for (const int size : {1, 3}) {
    expect_ranks({.size = size, .oversubscribed = true}, [](Communicator& communicator) {
      const auto points = sweep_all_reduce(communicator, quick());
      ASSERT_EQ(points.size(), 3U);
      EXPECT_EQ(points[2].bytes, 100000U);
      for (const auto& point : points) {
        EXPECT_GE(point.seconds.size(), 4U);
        EXPECT_EQ(point.wrong, "");
        for (const double seconds : point.seconds) EXPECT_GT(seconds, 0.0);
      }
    });
  }
}

TEST(Sweep, AllRanksTellOfAWrongValueOfOne) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    Sabotaged sabotaged(communicator, 200);
    const auto points = sweep_all_reduce(sabotaged, quick());
    EXPECT_EQ(points[1].wrong_rank, 1);
    EXPECT_EQ(points[0].wrong, "");
    EXPECT_EQ(points[1].wrong, "rank 1, element 200 of 256: 36 instead of 35");
    EXPECT_EQ(points[2].wrong, "rank 1, element 200 of 25000: 36 instead of 35");
  });
}

TEST(Sweep, CompressedSumsMustBeTheSameOnAllRanks) {
  expect_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    EXPECT_EQ(sweep_all_reduce(communicator, quick(false))[2].wrong, "");
    Sabotaged sabotaged(communicator, 200);
    EXPECT_EQ(sweep_all_reduce(sabotaged, quick(false))[2].wrong, "rank 1 has other values than rank 0");
  });
}

}  // namespace
}  // namespace dtrain::comm
