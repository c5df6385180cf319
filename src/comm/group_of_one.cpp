#include "comm/group_of_one.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "base/error.hpp"

namespace dtrain::comm {

namespace {

class GroupOfOne final : public Communicator {
 public:
  explicit GroupOfOne(int name) : name_(name) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::uint64_t bytes_sent() const override { return 0; }

  Ticket all_reduce(std::span<float>, backend::DeviceToken) override {
    check();
    return started_++;
  }
  Ticket start_reduce_scatter(std::span<float> data, const Deadline&) override {
    return all_reduce(data, {});
  }
  Ticket start_all_gather(std::span<float> data, const Deadline&) override { return all_reduce(data, {}); }
  void progress() override { check(); }
  bool only_enqueues() const override { return true; }
  void wait(Ticket ticket, const Deadline&) override {
    check();
    if (ticket >= started_) throw std::logic_error("wait for a collective that was not started");
  }
  void reduce_scatter(std::span<float>, const Deadline&) override { check(); }
  void all_gather(std::span<float>, const Deadline&) override { check(); }
  void broadcast(std::span<float>, int root, const Deadline&) override {
    check();
    if (root != 0) throw std::logic_error(fmt::format("rank {} asked for, in a group of 1", root));
  }
  void barrier(const Deadline&) override { check(); }
  std::vector<double> all_gather_values(std::span<const double> mine, const Deadline&) override {
    check();
    return {mine.begin(), mine.end()};
  }

  void send(std::span<const float>, int, const Deadline&) override { refuse_message(); }
  void receive(std::span<float>, int, const Deadline&) override { refuse_message(); }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
  }

  std::unique_ptr<Communicator> split(int, const Deadline&) override {
    check();
    return make_group_of_one(name_);
  }

 private:
  void check() {
    const std::lock_guard lock(mutex_);
    if (reason_) {
      throw run_error(fmt::format("rank {} aborted: {}", name_, *reason_),
                      fmt::format("look for the cause at rank {}", name_));
    }
  }

  void refuse_message() {
    check();
    throw std::logic_error("a message in a group of one rank");
  }

  int name_;
  Ticket started_ = 0;
  std::mutex mutex_;  // abort may come from another thread
  std::optional<std::string> reason_;
};

}  // namespace

std::unique_ptr<Communicator> make_group_of_one(int name) { return std::make_unique<GroupOfOne>(name); }

}  // namespace dtrain::comm
