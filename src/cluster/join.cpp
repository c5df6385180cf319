#include "base/error.hpp"
#include "cluster/chief.hpp"
#include "cluster/follower.hpp"
#include "cluster/local_job.hpp"
#include "cluster/this_process.hpp"
#include "config/address.hpp"

namespace dtrain::cluster {

namespace {

// By rank, also where a launcher counts processes and says no more of them.
std::vector<config::Task> all_tasks(const config::LaunchEnvironment& place) {
  std::vector<config::Task> tasks = place.tasks;
  while (tasks.size() < static_cast<std::size_t>(place.world)) {
    tasks.push_back({"worker", static_cast<int>(tasks.size()), ""});
  }
  return tasks;
}

std::unique_ptr<Member> job_of_one(const config::Task& task) {
  Peer peer = this_process();
  peer.role = task.role;
  peer.index = task.index;
  peer.address = task.address;
  peer.reached_at = "127.0.0.1";
  const auto board = std::make_shared<Board>(std::vector<Peer>{peer});
  return std::make_unique<BoardMember>(0, board->peers(), make_bell(*board),
                                       std::make_unique<DirectLink>(0, board));
}

void require_rendezvous(const JobConfig& config) {
  const bool free_port = config.place.rank == 0 && config.rendezvous.ends_with(":0");
  const auto problem = free_port ? std::nullopt : config::why_no_address(config.rendezvous);
  if (!problem) return;
  throw usage_error(fmt::format("the address of rank 0 is '{}': {}", config.rendezvous, *problem),
                    "give --rendezvous host:port");
}

}  // namespace

std::unique_ptr<Member> join(const JobConfig& config) {
  const auto& place = config.place;
  if (place.evaluator)
    throw usage_error("an evaluator is not in the job", "start it as a process of its own");
  auto tasks = all_tasks(place);
  if (place.alone()) return job_of_one(tasks.front());
  require_rendezvous(config);
  if (place.rank == 0) return open_job(config, std::move(tasks));
  return follow(config, tasks.at(static_cast<std::size_t>(place.rank)));
}

}  // namespace dtrain::cluster
