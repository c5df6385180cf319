#include "cluster/local_job.hpp"

#include "base/error.hpp"
#include "cluster/this_process.hpp"

namespace dtrain::cluster {

std::shared_ptr<LossBell> make_bell(Board& board) {
  auto bell = std::make_shared<LossBell>();
  board.on_loss([bell](const Loss& loss) { bell->ring(loss); });
  return bell;
}

std::vector<std::unique_ptr<Member>> make_local_job(int size) {
  if (size < 1) {
    throw usage_error(fmt::format("a job of {} members", size), "a job has at least one member");
  }
  std::vector<Peer> peers;
  for (int rank = 0; rank < size; ++rank) {
    Peer peer = this_process();
    peer.rank = peer.index = rank;
    peer.role = "worker";
    peer.reached_at = "127.0.0.1";
    peers.push_back(std::move(peer));
  }
  const auto board = std::make_shared<Board>(peers);
  std::vector<std::unique_ptr<Member>> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<BoardMember>(rank, peers, make_bell(*board),
                                                    std::make_unique<DirectLink>(rank, board)));
  }
  return members;
}

}  // namespace dtrain::cluster
