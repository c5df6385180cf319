// One process of a job, for tests that stop and kill it. Arguments: rank, world, address of the chief, what
// to do then, and the timeouts between members and of the rendezvous in seconds.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "cluster/member.hpp"

namespace {

using namespace dtrain;

void say(const std::string& text) { std::cout << text << std::endl; }

void work(cluster::Member& member, const std::string& what) {
  std::vector<int> all;
  for (int rank = 0; rank < member.size(); ++rank) all.push_back(rank);
  member.barrier("start", all, Deadline::in(Seconds(30.0)));
  say("started");
  if (what == "wait") member.get("never set", Deadline::in(Seconds(60.0)));
  if (what == "vanish") std::_Exit(0);
  member.leave(Deadline::in(Seconds(30.0)));
  say("left");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 99;
  cluster::JobConfig config;
  config.place.rank = std::atoi(arguments[1]);
  config.place.world = std::atoi(arguments[2]);
  config.rendezvous = arguments[3];
  config.timeout = Seconds(std::atof(arguments[5]));
  config.rendezvous_timeout = Seconds(std::atof(arguments[6]));
  config.token = "a secret";
  config.build = "build 1";
  for (int i = 0; i < config.place.world; ++i) config.place.tasks.push_back({"worker", i, ""});
  try {
    const auto member = cluster::join(config);
    work(*member, arguments[4]);
    return 0;
  } catch (const JobEnded& error) {
    say(fmt::format("ended: {}", error.what()));
  } catch (const Error& error) {
    say(fmt::format("{}: {}", name(error.category()), error.what()));
  }
  return 5;
}
