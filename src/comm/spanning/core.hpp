#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/compressor.hpp"
#include "comm/lane.hpp"
#include "comm/spanning/collectives.hpp"
#include "comm/spanning_group.hpp"

namespace dtrain::comm {

// What the ranks of one process share in a group that spans processes: their requests, the lane that carries
// them out, and the way to the other processes.
class SpanningCore {
 public:
  // `names` are the numbers by which messages call ranks: their ranks in the group this one came from.
  SpanningCore(std::unique_ptr<Exchange> exchange, SpanningConfig config, std::vector<int> names);
  ~SpanningCore();
  SpanningCore(const SpanningCore&) = delete;
  SpanningCore& operator=(const SpanningCore&) = delete;

  int size() const { return static_cast<int>(config_.process_of.size()); }
  int local_ranks() const { return local_ranks_; }
  int first_rank() const { return first_rank_; }
  int name_of(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  int process_of(int rank) const { return config_.process_of[static_cast<std::size_t>(rank)]; }
  bool is_local(int rank) const { return process_of(rank) == exchange_->rank(); }
  Exchange& exchange() { return *exchange_; }
  const SpanningConfig& config() const { return config_; }

  // The local rank's next request. Buffers are left alone once the collective is done or has failed.
  void post(int local, const Request& request);
  // Whether collectives up to this one are done, without waiting.
  bool done(std::uint64_t collective);
  void wait(std::uint64_t collective, int rank, const Deadline& deadline);
  // Does something on the lane, after what was handed in before, and waits for it.
  // `deed` completes "another process did not".
  void on_lane(const std::function<void()>& job, const std::string& deed, int rank, const Deadline& deadline);

  void check() { lane_.check(); }
  bool failed() const { return lane_.failed(); }
  // Ends this group here, and those split from it. The buffers of local ranks are not touched any more when
  // it returns.
  void fail(const Error& error);

  // Bytes to other processes, which count as the first local rank's.
  std::uint64_t bytes_sent() const { return exchange_->bytes_sent(); }
  std::uint64_t bytes_uncompressed() const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bytes_sent()) + saved_.load());
  }

  // The group of `members` that the split with this number makes for a colour; each local member asks once.
  std::shared_ptr<SpanningCore> subgroup(std::uint64_t split, int colour, const std::vector<int>& members,
                                         const Deadline& deadline);

  // Between ranks of different processes, on the ranks' own threads.
  void send_message(std::span<const float> data, int from, int to, const Deadline& deadline);
  std::vector<float> receive_message(int from, int to, const Deadline& deadline);

 private:
  struct Collective {
    std::vector<Request> requests;  // by local rank
    int came = 0;
    std::optional<Lane::Number> job;  // once all have come
  };
  struct Forming {
    std::shared_ptr<SpanningCore> core;
    int asked = 0;
  };

  void carry_out(std::uint64_t number);
  Collective& collective(std::uint64_t number) { return collectives_[number - first_kept_]; }
  void forget_done();
  void require_agreement(std::span<const Request> requests, std::uint64_t number);
  void read_message(int process, std::unique_lock<std::mutex>& lock, const Deadline& deadline);
  std::shared_ptr<SpanningCore> form(std::uint64_t split, int colour, const std::vector<int>& members);
  [[noreturn]] void fail_late(const std::string& who, const std::string& deed, int rank,
                              const Deadline& deadline);
  [[noreturn]] void fail_and_throw(const Error& error);

  const std::unique_ptr<Exchange> exchange_;
  const SpanningConfig config_;
  const std::vector<int> names_;
  const Placement placement_;
  const int local_ranks_;
  const int first_rank_;
  const std::unique_ptr<Compressor> compressor_;
  std::atomic<std::int64_t> saved_{0};  // bytes, by compression

  std::mutex mutex_;
  std::condition_variable changed_;  // with mutex_: all local ranks have posted, a group has formed, the end
  std::deque<Collective> collectives_;
  std::uint64_t first_kept_ = 0;  // number of collectives_.front()
  std::vector<std::uint64_t> posted_;
  std::map<std::pair<std::uint64_t, int>, Forming> forming_;
  std::vector<std::weak_ptr<SpanningCore>> children_;

  std::mutex sending_;
  std::mutex receiving_;
  std::condition_variable message_came_;                                    // with receiving_
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> messages_;  // sender and receiver
  std::vector<bool> being_read_;  // by process: a rank waits for its next message, for all
  Lane lane_;
};

}  // namespace dtrain::comm
