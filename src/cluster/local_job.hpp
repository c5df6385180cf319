#pragma once

#include "cluster/board.hpp"
#include "cluster/board_member.hpp"

namespace dtrain::cluster {

// The way of a member that lives in the board's own process.
class DirectLink : public Link {
 public:
  DirectLink(int rank, std::shared_ptr<Board> board) : rank_(rank), board_(std::move(board)) {}

  void ask(std::uint64_t id, Question question, Reply reply) override {
    board_->ask(rank_, id, std::move(question), std::move(reply));
  }
  void expire(std::uint64_t id, Seconds waited) override { board_->expire(rank_, id, waited); }
  void announce(Progress progress) override { board_->announce(rank_, progress); }
  Seconds progress_age() const override { return Seconds(0.0); }
  void fail(int rank, const std::string& reason) override { board_->fail(rank, reason); }
  void close() override {}

 protected:
  const int rank_;
  std::shared_ptr<Board> board_;
};

// Rung by the board's first loss.
std::shared_ptr<LossBell> make_bell(Board& board);

}  // namespace dtrain::cluster
