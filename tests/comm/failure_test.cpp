#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.hpp"
#include "ranks.hpp"

namespace dtrain::comm {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

Deadline soon() { return Deadline::in(Seconds(0.05)); }

void all_reduce(Communicator& communicator, std::span<float> data, const Deadline& deadline) {
  communicator.wait(communicator.all_reduce(data, {}), deadline);
}

TEST(MissingRank, IsNamedWithinTheDeadline) {
  std::atomic<bool> over{false};
  for (const bool oversubscribed : {true, false}) {
    over = false;
    const auto errors =
        run_ranks({.size = 4, .oversubscribed = oversubscribed}, [&](Communicator& communicator) {
          std::vector<float> data(100);
          all_reduce(communicator, data, ample());
          if (communicator.rank() >= 2) {
            while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
          }
          const auto leave = [&](const Deadline& deadline) { all_reduce(communicator, data, deadline); };
          if (communicator.rank() == 1) leave(ample());
          try {
            leave(soon());
          } catch (const Error& error) {
            EXPECT_EQ(error.category(), ErrorCategory::run);
            EXPECT_THAT(error.advice(), HasSubstr("rank 2"));
            over = true;
            throw;
          }
        });
    EXPECT_EQ(errors[0], "rank 2 did not reach the all-reduce within 0.05 s (rank 0 waited)");
    EXPECT_EQ(errors[1], errors[0]);
  }
}

TEST(MissingRank, IsNamedIfItCameButDoesNotTakePart) {
  std::atomic<bool> over{false};
  std::vector<std::vector<float>> data(3, std::vector<float>(100));  // outlives the communicators
  const auto errors = run_ranks({.size = 3, .oversubscribed = true}, [&](Communicator& communicator) {
    const Ticket ticket = communicator.all_reduce(data[static_cast<std::size_t>(communicator.rank())], {});
    if (communicator.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (communicator.rank() == 2) {
      communicator.wait(ticket, ample());
    } else {
      try {
        communicator.wait(ticket, soon());
      } catch (const Error&) {
        over = true;
        throw;
      }
    }
  });
  EXPECT_EQ(errors[0], "rank 1 did not finish its part of the all-reduce within 0.05 s (rank 0 waited)");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(MissingRank, IsNamedByBlockingCollectivesAndMessages) {
  const auto error_of = [](const Body& body) {
    std::atomic<bool> over{false};
    const auto errors = run_ranks({.size = 2, .oversubscribed = true}, [&](Communicator& communicator) {
      if (communicator.rank() == 1) {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      try {
        body(communicator);
      } catch (...) {
        over = true;
        throw;
      }
      over = true;
    });
    return errors[0];
  };
  std::vector<float> data(4);
  const std::vector<double> values(1);
  EXPECT_THAT(error_of([](Communicator& c) { c.barrier(soon()); }),
              StartsWith("rank 1 did not reach the barrier"));
  EXPECT_THAT(error_of([&](Communicator& c) { c.broadcast(data, 1, soon()); }),
              StartsWith("rank 1 did not reach the broadcast"));
  EXPECT_THAT(error_of([&](Communicator& c) { c.all_gather_values(values, soon()); }),
              StartsWith("rank 1 did not reach the exchange of values"));
  EXPECT_THAT(error_of([&](Communicator& c) { c.split(0, soon()); }), StartsWith("rank 1 did not reach"));
  EXPECT_THAT(error_of([&](Communicator& c) { c.receive(data, 1, soon()); }),
              StartsWith("rank 1 did not send a message within 0.05 s (rank 0 waited)"));
  EXPECT_THAT(error_of([&](Communicator& c) {
                c.send(data, 1, soon());
                c.send(data, 1, soon());
              }),
              StartsWith("rank 1 did not take a message within"));
}

TEST(MissingRank, EndsTheGroupForGood) {
  const auto errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    std::vector<float> data(10);
    const Ticket ticket = communicator.all_reduce(data, {});
    EXPECT_THROW(communicator.wait(ticket, soon()), Error);
    EXPECT_THROW(communicator.progress(), Error);
    EXPECT_THROW(communicator.all_reduce(data, {}), Error);
    EXPECT_THROW(communicator.barrier(ample()), Error);
    EXPECT_THROW(communicator.receive(data, 1, ample()), Error);
    EXPECT_THROW(communicator.send(data, 1, ample()), Error);
    EXPECT_THROW(communicator.split(0, ample()), Error);
    communicator.wait(ticket, ample());
  });
  EXPECT_THAT(errors[0], StartsWith("rank 1 did not reach the all-reduce"));
}

TEST(Abort, EndsAllWaitsAtOnceNamingRankAndReason) {
  for (const bool oversubscribed : {true, false}) {
    const auto errors =
        run_ranks({.size = 4, .oversubscribed = oversubscribed}, [](Communicator& communicator) {
          std::vector<float> data(1000);
          if (communicator.rank() == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            communicator.abort("no space on device");
            communicator.abort("a second reason");
            communicator.progress();
          }
          if (communicator.rank() == 3) communicator.receive(data, 2, ample());
          all_reduce(communicator, data, ample());
        });
    EXPECT_THAT(errors, Each(std::string("rank 2 aborted: no space on device")));
  }
}

TEST(Abort, WorksFromAnotherThread) {
  const auto errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    std::thread watcher([&] { communicator.abort("stopped by a watcher"); });
    try {
      communicator.barrier(ample());
    } catch (...) {
      watcher.join();
      throw;
    }
  });
  EXPECT_EQ(errors[0], "rank 0 aborted: stopped by a watcher");
}

TEST(Abort, EndsAGroupOfOneToo) {
  const auto errors = run_ranks({.size = 1}, [](Communicator& communicator) {
    communicator.abort("enough");
    std::vector<float> data(1);
    all_reduce(communicator, data, ample());
  });
  EXPECT_EQ(errors[0], "rank 0 aborted: enough");
}

TEST(Abort, ReachesGroupsThatWereSplitOff) {
  const auto errors = run_ranks({.size = 4, .oversubscribed = true}, [](Communicator& world) {
    const auto group = world.split(world.rank() % 2, ample());
    const auto pair = group->split(0, ample());
    if (world.rank() == 3) {
      world.abort("broken");
      return;
    }
    // Ranks 0 and 2 keep each other waiting; rank 1 waits for rank 3.
    if (world.rank() == 2) {
      world.barrier(ample());
    } else {
      pair->barrier(ample());
    }
  });
  EXPECT_EQ(errors[0], "rank 3 aborted: broken");
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(Split, MessagesCallRanksByTheirNumbersInTheWorld) {
  const auto errors = run_ranks({.size = 4, .oversubscribed = true}, [](Communicator& world) {
    const auto odd = world.split(world.rank() % 2, ample());
    if (world.rank() == 1) odd->barrier(soon());
  });
  EXPECT_EQ(errors[1], "rank 3 did not reach the barrier within 0.05 s (rank 1 waited)");
}

TEST(Disagreement, OfLengthsNamesRanksAndSizes) {
  const auto errors = run_ranks({.size = 3, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(communicator.rank() == 2 ? 999 : 1000);
    all_reduce(communicator, data, ample());
  });
  EXPECT_THAT(errors,
              Each(std::string("rank 0 started all-reduce of 1000 floats but rank 2 all-reduce of 999 "
                               "floats (collective 0 of the group)")));
}

TEST(Disagreement, OfOperationsOrRootsNamesBoth) {
  auto errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(10);
    communicator.barrier(ample());
    if (communicator.rank() == 0) {
      communicator.broadcast(data, 1, ample());
    } else {
      communicator.all_gather(data, ample());
    }
  });
  EXPECT_THAT(errors,
              Each(HasSubstr("rank 0 started broadcast from rank 1 of 10 floats but rank 1 all-gather of "
                             "10 floats (collective 1")));
  errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(10);
    communicator.broadcast(data, communicator.rank(), ample());
  });
  EXPECT_THAT(errors, Each(HasSubstr("broadcast from rank 0 of 10 floats but rank 1 broadcast from rank 1")));
  errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    communicator.all_gather_values(std::vector<double>(static_cast<std::size_t>(communicator.rank())),
                                   ample());
  });
  EXPECT_THAT(errors, Each(HasSubstr("exchange of values (0 each) but rank 1 exchange of values (1 each)")));
}

TEST(Disagreement, OfAMessagesLengthNamesBothRanks) {
  const auto errors = run_ranks({.size = 2, .oversubscribed = true}, [](Communicator& communicator) {
    std::vector<float> data(communicator.rank() == 0 ? 10 : 11);
    if (communicator.rank() == 0) communicator.send(data, 1, ample());
    if (communicator.rank() == 1) communicator.receive(data, 0, ample());
  });
  EXPECT_EQ(errors[1], "rank 0 sent 10 floats to rank 1, which expected 11");
}

TEST(Leaving, InTheMiddleEndsTheOthers) {
  std::vector<std::vector<float>> data(3, std::vector<float>(100));  // outlives the communicators
  const auto errors = run_ranks({.size = 3, .oversubscribed = true}, [&](Communicator& communicator) {
    const Ticket ticket = communicator.all_reduce(data[static_cast<std::size_t>(communicator.rank())], {});
    if (communicator.rank() == 1) return;
    communicator.wait(ticket, ample());
  });
  EXPECT_EQ(errors[0], "rank 1 left in the middle of an all-reduce");
  EXPECT_EQ(errors[2], errors[0]);
}

// A rank that fails frees its buffers; whoever was reducing in them must be out by then. Sanitizers watch.
TEST(Leaving, NobodyTouchesBuffersOfARankThatFailed) {
  for (int delay = 0; delay < 40; ++delay) {
    const auto errors =
        run_ranks({.size = 3, .oversubscribed = delay % 2 == 0}, [&](Communicator& communicator) {
          std::vector<std::vector<float>> data(20, std::vector<float>(10000, 1.0F));
          Ticket last = 0;
          for (auto& d : data) last = communicator.all_reduce(d, {});
          if (communicator.rank() == 1) {
            for (int i = 0; i < delay / 4; ++i) communicator.progress();
            communicator.abort("on purpose");
          } else {
            communicator.wait(last, ample());
          }
        });
    EXPECT_EQ(errors[1], "");
    for (const int rank : {0, 2}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(error.empty() || error == "rank 1 aborted: on purpose") << error;
    }
  }
}

TEST(Group, JoinsEachRankOnce) {
  const auto group = local_communicators().at("shared_memory").value({.size = 2});
  const auto first = group->join(0);
  EXPECT_EQ(first->rank(), 0);
  EXPECT_EQ(first->size(), 2);
  EXPECT_THROW(group->join(0), std::logic_error);
  EXPECT_THROW(group->join(2), std::logic_error);
  EXPECT_THROW(group->join(-1), std::logic_error);
  EXPECT_THROW(local_communicators().at("shared_memory").value({.size = 0}), std::logic_error);
}

TEST(Group, UnknownCommunicatorsAreRefusedWithTheNearest) {
  try {
    local_communicators().at("shared-memory");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("shared-memory"));
    EXPECT_THAT(error.advice(), HasSubstr("shared_memory"));
  }
}

}  // namespace
}  // namespace dtrain::comm
