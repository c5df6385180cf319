#pragma once

#include <memory>

#include "cluster/loss_bell.hpp"
#include "cluster/question.hpp"

namespace dtrain::cluster {

// A member's way to the board.
class Link {
 public:
  virtual ~Link() = default;
  // The reply comes once, from any thread: from the board, or with the loss that keeps it from coming.
  virtual void ask(std::uint64_t id, Question question, Reply reply) = 0;
  virtual void expire(std::uint64_t id, Seconds waited) = 0;
  virtual void announce(Progress progress) = 0;
  // What the board knows of a living member's progress is not older.
  virtual Seconds progress_age() const = 0;
  virtual void fail(int rank, const std::string& reason) = 0;
  // All members have left, or there was a loss, or the deadline is near.
  virtual void close() = 0;
};

// A member, whatever its way to the board. `bell` is rung by the link.
class BoardMember : public Member {
 public:
  BoardMember(int rank, std::vector<Peer> peers, std::shared_ptr<LossBell> bell, std::unique_ptr<Link> link);
  ~BoardMember() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  const std::vector<Peer>& peers() const override { return peers_; }

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, const Deadline& deadline) override;
  std::optional<std::string> try_get(const std::string& key) override;
  void erase(const std::string& key) override;
  std::vector<std::string> all_gather(const std::string& name, std::string_view mine,
                                      const std::vector<int>& ranks, const Deadline& deadline) override;
  void announce(Progress progress) override { link_->announce(progress); }
  std::optional<int> first_behind(Progress progress, const std::vector<int>& ranks) override;
  void fail(int rank, const std::string& reason) override;
  std::optional<Loss> loss() const override { return bell_->loss(); }
  void check() const override;
  Handle on_loss(std::function<void(const Loss&)> call) override { return bell_->subscribe(std::move(call)); }
  ClockOffset clock_offset() override;
  void leave(const Deadline& deadline) override;

 private:
  Answer ask(Question question, const Deadline* deadline);
  Answer ask_or_throw(Question question, const Deadline* deadline = nullptr);
  [[noreturn]] void throw_ended(const Loss& loss) const;

  const int rank_;
  const std::vector<Peer> peers_;
  std::shared_ptr<LossBell> bell_;
  std::unique_ptr<Link> link_;
  std::atomic<std::uint64_t> next_id_ = 1;
  bool left_ = false;
};

}  // namespace dtrain::cluster
