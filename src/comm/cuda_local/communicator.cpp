#include "comm/cuda_local/communicator.hpp"

#include <fmt/format.h>

#include "comm/cuda_local/meeting.hpp"
#include "comm/cuda_local/parts.hpp"
#include "comm/group_of_one.hpp"

namespace dtrain::comm {

namespace {

class CudaLocalCommunicator final : public Communicator {
 public:
  CudaLocalCommunicator(std::shared_ptr<DeviceGroup> group, int rank, backend::DeviceStream replica)
      : meeting_(std::move(group), rank, replica) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.ranks(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

  Ticket all_reduce(std::span<float> data, backend::DeviceToken ready) override {
    return meeting_.attempt([&] {
      bytes_sent_ += 2 * others() * data.size_bytes() / ranks();
      return meeting_.start(request(Operation::all_reduce, data), static_cast<cudaEvent_t>(ready.event));
    });
  }

  void progress() override {
    meeting_.attempt([&] { meeting_.go_on(); });
  }

  void wait(Ticket ticket, const Deadline& deadline) override {
    if (ticket >= meeting_.started()) {
      throw std::logic_error("wait for a collective that was not started");
    }
    meeting_.attempt([&] { meeting_.finish(ticket, deadline); });
  }

  void synchronize(const Deadline& deadline) override {
    meeting_.attempt([&] {
      if (meeting_.started() > 0) meeting_.finish(meeting_.started() - 1, deadline);
      meeting_.wait_for_device(deadline);
    });
  }

  void reduce_scatter(std::span<float> data, const Deadline& deadline) override {
    meet(request(Operation::reduce_scatter, data), others() * data.size_bytes() / ranks(), deadline);
  }

  void all_gather(std::span<float> data, const Deadline& deadline) override {
    meet(request(Operation::all_gather, data), others() * data.size_bytes() / ranks(), deadline);
  }

  void broadcast(std::span<float> data, int root, const Deadline& deadline) override {
    check_peer(root);
    Request from_root = request(Operation::broadcast, data);
    from_root.root = root;
    meet(from_root, root == rank() ? others() * data.size_bytes() : 0, deadline);
  }

  void barrier(const Deadline& deadline) override { meet({.operation = Operation::barrier}, 0, deadline); }

  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline& deadline) override {
    std::vector<double> gathered(mine.size() * ranks());
    meet({.operation = Operation::gather_values,
          .count = mine.size(),
          .values = mine.data(),
          .gathered = gathered.data()},
         others() * mine.size_bytes(), deadline);
    return gathered;
  }

  // Messages go by way of the host.
  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    check_peer(to);
    meeting_.attempt([&] {
      Mailbox& box = meeting_.host().mailbox(rank(), to);
      const std::uint64_t sent = box.sent.load();
      meeting_.wait_for_peer(
          to, [&] { return box.taken.load() == sent; }, "take a message", deadline);
      box.message.resize(data.size());
      copy(box.message.data(), data.data(), data.size_bytes(), deadline);
      box.sent.store(sent + 1);
      meeting_.host().seat(rank()).event.notify();
      bytes_sent_ += data.size_bytes();
    });
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    check_peer(from);
    meeting_.attempt([&] {
      Mailbox& box = meeting_.host().mailbox(from, rank());
      const std::uint64_t taken = box.taken.load();
      meeting_.wait_for_peer(
          from, [&] { return box.sent.load() > taken; }, "send a message", deadline);
      if (box.message.size() != data.size()) {
        meeting_.end(run_error(
            fmt::format("rank {} sent {} floats to rank {}, which expected {}", meeting_.label(from),
                        box.message.size(), meeting_.label(rank()), data.size()),
            "sender and receiver must agree on the length"));
      }
      copy(data.data(), box.message.data(), data.size_bytes(), deadline);
      box.taken.store(taken + 1);
      meeting_.host().seat(rank()).event.notify();
    });
  }

  void abort(const std::string& reason) override { meeting_.abort(reason); }

  std::unique_ptr<Communicator> split(int colour, const Deadline& deadline) override {
    const double mine = colour;
    const std::vector<double> colours = all_gather_values({&mine, 1}, deadline);
    std::vector<int> members;
    int child_rank = 0;
    for (int other = 0; other < size(); ++other) {
      if (static_cast<int>(colours[static_cast<std::size_t>(other)]) != colour) continue;
      if (other == rank()) child_rank = static_cast<int>(members.size());
      members.push_back(other);
    }
    const std::uint64_t number = splits_++;
    if (members.size() == 1) return make_group_of_one(meeting_.label(rank()));
    return meeting_.attempt([&] {
      auto group = meeting_.group().subgroup(number, colour, members);
      return make_cuda_local_communicator(std::move(group), child_rank, meeting_.replica());
    });
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  std::size_t others() const { return ranks() - 1; }

  static Request request(Operation operation, std::span<float> data) {
    return {.operation = operation, .count = data.size(), .data = data.data()};
  }

  void check_peer(int peer) const {
    if (peer < 0 || peer >= size()) {
      throw std::logic_error(fmt::format("rank {} asked for, in a group of {}", peer, size()));
    }
  }

  // A blocking collective.
  void meet(const Request& request, std::uint64_t bytes, const Deadline& deadline) {
    meeting_.attempt([&] {
      bytes_sent_ += bytes;
      meeting_.finish(meeting_.start(request, nullptr), deadline);
      if (on_device(request.operation)) meeting_.wait_for_device(deadline);
    });
  }

  void copy(void* to, const void* from, std::size_t bytes, const Deadline& deadline) {
    if (bytes == 0) return;
    const cudaStream_t stream = meeting_.group().lane(rank()).compute;
    DTRAIN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    meeting_.wait_for_device(deadline);
  }

  Meeting meeting_;
  std::uint64_t splits_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_cuda_local_communicator(std::shared_ptr<DeviceGroup> group, int rank,
                                                           backend::DeviceStream replica) {
  return std::make_unique<CudaLocalCommunicator>(std::move(group), rank, replica);
}

}  // namespace dtrain::comm
