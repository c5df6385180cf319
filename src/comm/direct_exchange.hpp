#pragma once

#include <atomic>
#include <vector>

#include "comm/exchange.hpp"

namespace dtrain::comm {

// Collectives made of one deed: bytes to one process while bytes come from another. Every process sends to
// all others directly, so that sums can be taken in rank order, and no byte goes a way twice.
class DirectExchange : public Exchange {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(); }

  void reduce_scatter(std::span<float> data, const Deadline& deadline) override;
  void all_gather(std::span<float> data, const Deadline& deadline) override;
  void broadcast(std::span<float> data, int root, const Deadline& deadline) override;
  void barrier(const Deadline& deadline) override;
  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all,
                        const Deadline& deadline) override;
  void all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from,
                        const Deadline& deadline) override;

 protected:
  DirectExchange(int rank, int size) : rank_(rank), size_(size) {}

  // Sends and receives at the same time; what is empty is left out. The sizes agree on both sides.
  virtual void swap(std::span<const std::byte> out, int to, std::span<std::byte> in, int from,
                    const Deadline& deadline) = 0;

  // An all-reduce: each process sums its share in rank order, and hands it to all.
  void sum_directly(std::span<float> data, const Deadline& deadline);

  // What is going on, for messages: "the all-reduce".
  const char* deed() const { return deed_; }
  void begin(const char* deed, std::uint64_t bytes);
  void count(std::uint64_t bytes) { bytes_sent_ += bytes; }
  std::size_t processes() const { return static_cast<std::size_t>(size_); }
  std::uint64_t others() const { return processes() - 1; }

 private:
  int before(int distance) const { return (rank_ + size_ - distance) % size_; }
  int after(int distance) const { return (rank_ + distance) % size_; }
  void sum_own_shard(std::span<float> data, const Deadline& deadline);
  void gather_shards(std::span<float> data, const Deadline& deadline);

  const int rank_;
  const int size_;
  const char* deed_ = "nothing";
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::vector<float> pieces_;  // of a reduce-scatter, from the others
};

}  // namespace dtrain::comm
