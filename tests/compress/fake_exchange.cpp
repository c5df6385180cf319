#include "fake_exchange.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace dtrain::testing {
namespace {

// Where the threads leave a pointer for each other.
class Meeting {
 public:
  explicit Meeting(int size) : posted_(static_cast<std::size_t>(size)) {}

  const std::vector<const std::byte*>& posted() const { return posted_; }
  void post(int rank, const void* data) {
    posted_[static_cast<std::size_t>(rank)] = static_cast<const std::byte*>(data);
  }

  // Returns when all have come.
  void meet(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    const int turn = turn_;
    if (++arrived_ == static_cast<int>(posted_.size())) {
      arrived_ = 0;
      ++turn_;
      come_.notify_all();
      return;
    }
    const bool in_time =
        come_.wait_until(lock, deadline.at(), [&] { return turn_ != turn || !reason_.empty(); });
    if (!reason_.empty()) throw run_error(reason_, "look at the other processes");
    if (!in_time) throw run_error("a process did not come in time", "look at the other processes");
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    come_.notify_all();
  }

 private:
  std::vector<const std::byte*> posted_;
  std::mutex mutex_;
  std::condition_variable come_;
  int arrived_ = 0;
  int turn_ = 0;
  std::string reason_;
};

class FakeExchange final : public comm::Exchange {
 public:
  FakeExchange(Meeting& meeting, int rank, int size) : meeting_(&meeting), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(std::span<float> data, const Deadline& deadline) override {
    const std::vector<float> mine(data.begin(), data.end());
    gather(mine.data(), deadline, [&](std::size_t rank, const std::byte* from) {
      const auto* values = reinterpret_cast<const float*>(from);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = rank == 0 ? values[i] : data[i] + values[i];
    });
    bytes_sent_ += 2 * others() * data.size_bytes() / static_cast<std::size_t>(size_);
  }
  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all,
                        const Deadline& deadline) override {
    ASSERT_EQ(all.size(), mine.size() * static_cast<std::size_t>(size_));
    gather(mine.data(), deadline, [&](std::size_t rank, const std::byte* from) {
      std::copy_n(from, mine.size(), all.data() + rank * mine.size());
    });
    bytes_sent_ += others() * mine.size();
  }
  void all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from,
                        const Deadline& deadline) override {
    ASSERT_EQ(to.size(), from.size());
    const std::size_t piece = to.size() / static_cast<std::size_t>(size_);
    ASSERT_EQ(piece * static_cast<std::size_t>(size_), to.size());
    gather(to.data(), deadline, [&](std::size_t rank, const std::byte* theirs) {
      std::copy_n(theirs + static_cast<std::size_t>(rank_) * piece, piece, from.data() + rank * piece);
    });
    bytes_sent_ += others() * piece;
  }

  void reduce_scatter(std::span<float>, const Deadline&) override { unexpected(); }
  void all_gather(std::span<float>, const Deadline&) override { unexpected(); }
  void broadcast(std::span<float>, int, const Deadline&) override { unexpected(); }
  void barrier(const Deadline& deadline) override { meeting_->meet(deadline); }
  void send(std::span<const float>, int, const Deadline&) override { unexpected(); }
  void receive(std::span<float>, int, const Deadline&) override { unexpected(); }
  void abort(const std::string& reason) override { meeting_->abort(reason); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  std::string describe_all_reduce(std::size_t) const override { return "threads"; }

 private:
  std::uint64_t others() const { return static_cast<std::uint64_t>(size_ - 1); }
  static void unexpected() { throw std::logic_error("a call that compressors have no use for"); }

  template <class Take>
  void gather(const void* mine, const Deadline& deadline, const Take& take) {
    meeting_->post(rank_, mine);
    meeting_->meet(deadline);
    for (std::size_t rank = 0; rank < meeting_->posted().size(); ++rank) {
      take(rank, meeting_->posted()[rank]);
    }
    meeting_->meet(deadline);  // all have read
  }

  Meeting* meeting_;
  int rank_;
  int size_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace

void run_processes(int size, const std::function<void(comm::Exchange&)>& body) {
  Meeting meeting(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      FakeExchange exchange(meeting, rank, size);
      try {
        body(exchange);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        exchange.abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)], "") << "process " << rank << " of " << size;
  }
}

}  // namespace dtrain::testing
