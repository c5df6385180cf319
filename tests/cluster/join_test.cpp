#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/error.hpp"
#include "captured_log.hpp"
#include "cluster/sockets.hpp"
#include "job.hpp"

namespace dtrain::cluster {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Category, what and advice of the error that a process ends with.
std::string failure(const JobConfig& config) {
  try {
    const auto member = join(config);
    member->leave(soon());
  } catch (const Error& error) {
    return fmt::format("{}: {} | {}", name(error.category()), error.what(), error.advice());
  }
  return "joined";
}

std::future<std::string> fails_soon(const JobConfig& config) {
  return std::async(std::launch::async, [config] { return failure(config); });
}

// A job with addresses, as TF_CONFIG gives them.
JobConfig listed(int rank, const std::vector<std::string>& addresses) {
  JobConfig config = job_config(rank, static_cast<int>(addresses.size()));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    config.place.tasks.push_back({"worker", static_cast<int>(i), addresses[i]});
  }
  config.rendezvous = addresses.front();
  return config;
}

TEST(Join, TellsWhoListensAndWhoCame) {
  const CapturedLog log;
  const std::vector<std::string> addresses{free_address(), free_address()};
  auto one = fails_soon(listed(1, addresses));
  EXPECT_EQ(failure(listed(0, addresses)), "joined");
  EXPECT_EQ(one.get(), "joined");
  EXPECT_THAT(log.text(),
              HasSubstr(fmt::format("worker 0 ({}) listens at {}, for 1 more", addresses[0], addresses[0])));
  EXPECT_THAT(log.text(), HasSubstr(fmt::format("worker 1 ({}) joined from 127.0.0.1 (process {} on ",
                                                addresses[1], ::getpid())));
  EXPECT_THAT(log.text(), HasSubstr("2 of 2 present"));
}

TEST(Join, ListsWhoDidNotCome) {
  const CapturedLog log;
  const std::vector<std::string> addresses{free_address(), free_address(), free_address()};
  auto config = [&](int rank) {
    auto made = listed(rank, addresses);
    made.rendezvous_timeout = Seconds(1.3);
    return made;
  };
  auto one = fails_soon(config(1));
  const std::string chief = failure(config(0));
  const std::string missing = fmt::format("missing: worker 2 ({})", addresses[2]);
  for (const std::string& text : {chief, one.get()}) {
    EXPECT_THAT(
        text, AllOf(HasSubstr("run: 2 of 3 present"), HasSubstr(missing), HasSubstr("--rendezvous-timeout")));
    EXPECT_THAT(text, Not(HasSubstr("worker 1")));
  }
  EXPECT_THAT(log.text(), testing::ContainsRegex("2 of 3 present after [0-9.]+ s; missing: worker 2"));
}

TEST(Join, AFollowerWithLessPatienceTellsWhatItKnows) {
  const CapturedLog log;
  const std::vector<std::string> addresses{free_address(), free_address(), free_address()};
  auto follower = listed(1, addresses);
  follower.rendezvous_timeout = Seconds(1.1);
  auto chief = listed(0, addresses);
  chief.rendezvous_timeout = Seconds(2.6);
  auto one = fails_soon(follower);
  EXPECT_THAT(failure(chief),
              HasSubstr(fmt::format("1 of 3 present after 2.6 s; missing: worker 1 ({}), which "
                                    "came and went, worker 2 ({})",
                                    addresses[1], addresses[2])));
  EXPECT_THAT(one.get(), AllOf(HasSubstr("run: 2 of 3 present"), HasSubstr("missing: worker 2")));
}

TEST(Join, WorksForEveryWayToWriteAnAddress) {
  const CapturedLog log;
  for (const char* address : {"localhost:0", "0.0.0.0:0", "[::1]:0"}) {
    if (interface_of("::1") != "::1" && std::string(address) == "[::1]:0") continue;
    const auto job = join_all(2, [&](JobConfig& config) { config.rendezvous = address; });
    on_each(job, [](Member& member) { member.barrier("all", {0, 1}, soon()); });
    leave_all(job);
  }
}

TEST(Join, NamesAChiefThatRefusesConnections) {
  const CapturedLog log;
  auto config = job_config(1, 2);
  config.rendezvous = free_address();
  config.rendezvous_timeout = Seconds(1.2);
  EXPECT_THAT(failure(config),
              AllOf(HasSubstr("run: worker 1 could not reach the chief at " + config.rendezvous),
                    HasSubstr("within 1.2 s"), HasSubstr("Connection refused")));
  EXPECT_THAT(log.text(), HasSubstr("has tried to reach the chief at " + config.rendezvous));
}

TEST(Join, NamesAChiefThatCannotBeReached) {
  auto config = job_config(1, 2);
  config.rendezvous = "192.0.2.1:2222";
  config.rendezvous_timeout = Seconds(0.5);
  EXPECT_THAT(failure(config), AllOf(HasSubstr("run: "), HasSubstr("192.0.2.1:2222"),
                                     AnyOf(HasSubstr("no answer"), HasSubstr("unreachable"),
                                           HasSubstr("No route"), HasSubstr("refused"))));
  config.rendezvous = "no-such-host.invalid:2222";
  EXPECT_THAT(failure(config), AllOf(HasSubstr("run: "), HasSubstr("no-such-host.invalid:2222"),
                                     HasSubstr("does not resolve")));
}

TEST(Join, NamesAPortThatIsNoChief) {
  const auto address = free_address();
  const auto held = take_port("127.0.0.1", config::split_address(address).port, "test");
  auto config = job_config(1, 2);
  config.rendezvous = address;
  config.rendezvous_timeout = Seconds(0.3);
  EXPECT_THAT(failure(config), AllOf(HasSubstr("run: "), HasSubstr(address)));
}

TEST(Join, ComesLateToAChief) {
  const std::vector<std::string> addresses{free_address(), free_address()};
  auto one = fails_soon(listed(1, addresses));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(failure(listed(0, addresses)), "joined");
  EXPECT_EQ(one.get(), "joined");
}

TEST(Join, APortInUseIsNamed) {
  const std::vector<std::string> addresses{free_address(), free_address()};
  for (int rank = 0; rank < 2; ++rank) {
    const int port = config::split_address(addresses[static_cast<std::size_t>(rank)]).port;
    const auto held = take_port("127.0.0.1", port, "test");
    EXPECT_THAT(failure(listed(rank, addresses)),
                AllOf(HasSubstr(fmt::format("environment: worker {} (127.0.0.1:{})", rank, port)),
                      HasSubstr(fmt::format("port {} is in use", port))));
  }
}

TEST(Join, AParameterServersPortIsLeftToIt) {
  const std::vector<std::string> addresses{free_address(), free_address()};
  auto server = listed(1, addresses);
  server.place.tasks[1].role = "ps";
  server.place.tasks[1].index = 0;
  auto chief = listed(0, addresses);
  chief.place.tasks = server.place.tasks;
  const auto held = take_port("127.0.0.1", config::split_address(addresses[1]).port, "test");
  auto one = fails_soon(server);
  EXPECT_EQ(failure(chief), "joined");
  EXPECT_EQ(one.get(), "joined");
}

TEST(Join, AChiefListensOnAllInterfacesForAnAddressElsewhere) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 2);
  chief.rendezvous = "192.0.2.1:0";
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = fails_soon(chief);
  auto follower = job_config(1, 2);
  const auto port = config::split_address(published.get_future().get()).port;
  follower.rendezvous = fmt::format("127.0.0.1:{}", port);
  EXPECT_EQ(failure(follower), "joined");
  EXPECT_EQ(zero.get(), "joined");
  EXPECT_THAT(log.text(), HasSubstr(fmt::format("listens at 192.0.2.1:{} on all interfaces", port)));
}

TEST(Join, RefusesAddressesThatCannotBe) {
  auto chief = job_config(0, 2);
  chief.rendezvous = "no-such-host.invalid:0";
  chief.rendezvous_timeout = Seconds(0.3);
  CapturedLog log;
  EXPECT_THAT(failure(chief), HasSubstr("run: ")) << "others may find it all the same, and did not come";
  EXPECT_THAT(log.text(), AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("does not resolve"),
                                HasSubstr("listens on all interfaces")));
  chief.rendezvous = "";
  EXPECT_THAT(failure(chief), HasSubstr("usage: "));
  auto follower = job_config(1, 2);
  EXPECT_THAT(failure(follower), AllOf(HasSubstr("usage: "), HasSubstr("127.0.0.1:0")));
}

// Somebody who does not belong there comes first; then the right one.
struct Stranger {
  const char* name;
  void (*change)(JobConfig&);
  std::vector<std::string> told;    // to the stranger
  std::vector<std::string> logged;  // by the chief
};

class Refusal : public testing::TestWithParam<Stranger> {};

TEST_P(Refusal, IsToldOnBothSidesAndDoesNotDisturb) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 2);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = fails_soon(chief);
  auto right = job_config(1, 2);
  right.rendezvous = published.get_future().get();
  auto wrong = right;
  GetParam().change(wrong);
  const std::string told = failure(wrong);
  EXPECT_THAT(told, HasSubstr("run: "));
  for (const auto& words : GetParam().told) EXPECT_THAT(told, HasSubstr(words));
  for (const auto& words : GetParam().logged) EXPECT_THAT(log.text(), HasSubstr(words));
  EXPECT_EQ(failure(right), "joined");
  EXPECT_EQ(zero.get(), "joined");
}

INSTANTIATE_TEST_SUITE_P(, Refusal,
                         testing::Values(Stranger{"build",
                                                  [](JobConfig& config) { config.build = "build 2"; },
                                                  {"another build", "'build 2'", "'build 1'"},
                                                  {"refused worker 1 from 127.0.0.1", "another build"}},
                                         Stranger{"world",
                                                  [](JobConfig& config) { config.place.world = 3; },
                                                  {"a job of 3", "one of 2"},
                                                  {"refused worker 1", "a job of 3"}},
                                         Stranger{
                                             "chief twice",
                                             [](JobConfig& config) {
                                               config.place.tasks = {{"worker", 1, ""}, {"worker", 0, ""}};
                                             },
                                             {"rank 1 is worker 0 to it", "worker 1 to the chief"},
                                             {"refused worker 0"}},
                                         Stranger{"token",
                                                  [](JobConfig& config) { config.token = "wrong"; },
                                                  {"DTRAIN_JOB_TOKEN"},
                                                  {"turned away a stranger from 127.0.0.1: another token"}},
                                         Stranger{"no token",
                                                  [](JobConfig& config) { config.token = ""; },
                                                  {"DTRAIN_JOB_TOKEN"},
                                                  {"turned away a stranger from 127.0.0.1: no token"}}),
                         [](const auto& tested) {
                           std::string text = tested.param.name;
                           std::ranges::replace(text, ' ', '_');
                           return text;
                         });

TEST(Join, ARankThatComesTwiceIsRefused) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 3);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = fails_soon(chief);
  auto one = job_config(1, 3);
  one.rendezvous = published.get_future().get();
  auto first = fails_soon(one);
  while (log.text().find("worker 1 joined") == std::string::npos) std::this_thread::yield();
  const std::string process = fmt::format("process {} on ", ::getpid());
  EXPECT_THAT(failure(one),
              AllOf(HasSubstr("worker 1 has come twice: " + process), HasSubstr(" is here, " + process)));
  EXPECT_THAT(log.text(), HasSubstr("refused worker 1"));
  auto two = one;
  two.place.rank = 2;
  EXPECT_EQ(failure(two), "joined");
  EXPECT_EQ(first.get(), "joined");
  EXPECT_EQ(zero.get(), "joined");
}

TEST(Join, SaysWhomItRefusedWhenTheyAreMissed) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 2);
  chief.rendezvous_timeout = Seconds(0.5);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = fails_soon(chief);
  auto wrong = job_config(1, 2);
  wrong.rendezvous = published.get_future().get();
  wrong.build = "build 2";
  EXPECT_THAT(failure(wrong), HasSubstr("another build"));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("missing: worker 1"), HasSubstr("refused: worker 1 (process"),
                                HasSubstr("another build")));
}

TEST(Join, OneProcessNeedsNobody) {
  const auto member = join(job_config(0, 1));
  EXPECT_EQ(member->size(), 1);
  member->set("a", "b");
  EXPECT_EQ(member->get("a", soon()), "b");
  member->barrier("alone", {0}, soon());
  member->leave(soon());
}

}  // namespace
}  // namespace dtrain::cluster
