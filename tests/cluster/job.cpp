#include "job.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "base/error.hpp"

namespace dtrain::cluster {

JobConfig job_config(int rank, int world) {
  JobConfig config;
  config.place.source = "test";
  config.place.rank = rank;
  config.place.world = world;
  config.rendezvous = "127.0.0.1:0";
  config.rendezvous_timeout = Seconds(30.0);
  config.token = "a secret";
  config.build = "build 1";
  return config;
}

std::vector<std::unique_ptr<Member>> join_all(int world, const std::function<void(JobConfig&)>& change) {
  std::promise<std::string> published;
  const std::shared_future<std::string> address = published.get_future().share();
  std::vector<std::future<std::unique_ptr<Member>>> joining;
  for (int rank = 0; rank < world; ++rank) {
    JobConfig config = job_config(rank, world);
    if (change) change(config);
    joining.push_back(std::async(std::launch::async, [&published, address, config]() mutable {
      if (config.place.rank != 0) config.rendezvous = address.get();
      if (config.place.rank == 0) config.publish = [&](const std::string& at) { published.set_value(at); };
      try {
        return join(config);
      } catch (...) {
        if (config.place.rank == 0 && address.wait_for(Seconds(0.0)) != std::future_status::ready) {
          published.set_exception(std::current_exception());
        }
        throw;
      }
    }));
  }
  std::vector<std::unique_ptr<Member>> members;
  for (auto& one : joining) members.push_back(one.get());
  return members;
}

void on_each(const std::vector<std::unique_ptr<Member>>& job, const std::function<void(Member&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& member : job) threads.emplace_back([&] { work(*member); });
  for (auto& thread : threads) thread.join();
}

void leave_all(const std::vector<std::unique_ptr<Member>>& job) {
  on_each(job, [](Member& member) { member.leave(soon()); });
}

std::string ended(const std::function<void()>& call) {
  try {
    call();
  } catch (const JobEnded& error) {
    return error.what();
  }
  return "did not end";
}

std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  ::bind(socket, reinterpret_cast<sockaddr*>(&here), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size);
  ::close(socket);
  return fmt::format("127.0.0.1:{}", ntohs(here.sin_port));
}

}  // namespace dtrain::cluster
