#include "comm/spanning/local_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "comm/communicator.hpp"
#include "comm/shared_memory/communicator.hpp"
#include "comm/spanning/post_office.hpp"

namespace dtrain::comm {

namespace {

// Bytes as values that a communicator carries, the last one filled up.
template <class Value>
std::vector<Value> as_values(std::span<const std::byte> bytes) {
  std::vector<Value> values((bytes.size() + sizeof(Value) - 1) / sizeof(Value));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class Value>
void copy_bytes(std::span<const Value> values, std::span<std::byte> to) {
  if (!to.empty()) std::memcpy(to.data(), values.data(), to.size());
}

class LocalExchange final : public Exchange {
 public:
  LocalExchange(std::shared_ptr<LocalExchanges> exchanges, std::string name,
                std::unique_ptr<Communicator> communicator, std::shared_ptr<PostOffice> messages)
      : exchanges_(std::move(exchanges)),
        name_(std::move(name)),
        communicator_(std::move(communicator)),
        messages_(std::move(messages)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(); }

  void all_reduce(std::span<float> data, const Deadline& deadline) override {
    count(2 * others() * data.size_bytes() / ranks());
    communicator_->wait(communicator_->all_reduce(data, {}), deadline);
  }
  void reduce_scatter(std::span<float> data, const Deadline& deadline) override {
    count(others() * data.size_bytes() / ranks());
    communicator_->reduce_scatter(data, deadline);
  }
  void all_gather(std::span<float> data, const Deadline& deadline) override {
    count(others() * data.size_bytes() / ranks());
    communicator_->all_gather(data, deadline);
  }
  void broadcast(std::span<float> data, int root, const Deadline& deadline) override {
    count(root == rank() ? others() * data.size_bytes() : 0);
    communicator_->broadcast(data, root, deadline);
  }
  void barrier(const Deadline& deadline) override { communicator_->barrier(deadline); }
  void send(std::span<const float> data, int to, const Deadline&) override {
    count(data.size_bytes());
    messages_->send(data, rank(), to);
  }
  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    const std::vector<float> message = messages_->receive(from, rank(), deadline);
    std::ranges::copy(message, data.begin());
  }

  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all,
                        const Deadline& deadline) override {
    count(others() * mine.size());
    const std::vector<double> values = as_values<double>(mine);
    const std::vector<double> gathered = communicator_->all_gather_values(values, deadline);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      copy_bytes(std::span(gathered).subspan(rank * values.size(), values.size()),
                 all.subspan(rank * mine.size(), mine.size()));
    }
  }

  void all_to_all_bytes(std::span<const std::byte> to, std::span<std::byte> from,
                        const Deadline& deadline) override {
    const std::size_t piece = to.size() / ranks();
    count(others() * piece);
    const auto at = [&](auto whole, int rank) {
      return whole.subspan(static_cast<std::size_t>(rank) * piece, piece);
    };
    std::ranges::copy(at(to, rank()), at(from, rank()).begin());
    std::vector<float> message((piece + sizeof(float) - 1) / sizeof(float));
    for (int distance = 1; distance < size(); ++distance) {
      const int after = (rank() + distance) % size();
      const int before = (rank() + size() - distance) % size();
      communicator_->send(as_values<float>(at(to, after)), after, deadline);
      communicator_->receive(message, before, deadline);
      copy_bytes(std::span<const float>(message), at(from, before));
    }
  }

  std::unique_ptr<Exchange> subgroup(const std::vector<int>& members, const std::string& name) override {
    const auto place = std::ranges::find(members, rank()) - members.begin();
    return exchanges_->join(name_ + "/" + name, static_cast<int>(members.size()), static_cast<int>(place));
  }

  void abort(const std::string& reason) override {
    communicator_->abort(reason);
    messages_->close(reason);
  }
  std::string describe_all_reduce(std::size_t) const override { return "shares summed in shared memory"; }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::uint64_t others() const { return ranks() - 1; }
  void count(std::uint64_t bytes) { bytes_sent_ += bytes; }

  std::shared_ptr<LocalExchanges> exchanges_;
  const std::string name_;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<PostOffice> messages_;
  std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace

std::unique_ptr<Exchange> LocalExchanges::join(const std::string& name, int size, int rank) {
  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<PostOffice> messages;
  {
    const std::lock_guard lock(mutex_);
    Forming& forming = groups_[name];
    if (!forming.group) {
      forming.group = make_shared_memory_group({.size = size, .oversubscribed = oversubscribed_});
      forming.messages = std::make_shared<PostOffice>();
    }
    communicator = forming.group->join(rank);
    messages = forming.messages;
    if (++forming.joined == size) groups_.erase(name);
  }
  return std::make_unique<LocalExchange>(shared_from_this(), name, std::move(communicator),
                                         std::move(messages));
}

}  // namespace dtrain::comm
