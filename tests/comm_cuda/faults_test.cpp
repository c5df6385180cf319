#include <gtest/gtest.h>

#include <set>

#include "gpus.hpp"

namespace dtrain::comm {
namespace {

// A bit of everything that a communicator does.
void use_it_all(Communicator& communicator, Gpu& gpu) {
  const auto data = gpu.upload(std::vector<float>(1001, 1.0F));
  communicator.register_buffer(data);
  const Ticket ticket = communicator.all_reduce(data.first(500), gpu.mark());
  communicator.wait(communicator.all_reduce(data.subspan(500), {}), ample());
  communicator.wait(ticket, ample());
  communicator.synchronize(ample());
  EXPECT_EQ(gpu.download(data), std::vector<float>(1001, 2.0F));
  communicator.broadcast(data, 1, ample());
  communicator.reduce_scatter(data, ample());
  communicator.all_gather(data, ample());
  EXPECT_EQ(gpu.download(data), std::vector<float>(1001, 4.0F));
  const double mine = communicator.rank();
  EXPECT_EQ(communicator.all_gather_values({&mine, 1}, ample()), (std::vector<double>{0.0, 1.0}));
  const int other = 1 - communicator.rank();
  communicator.send(data, other, ample());
  communicator.receive(data, other, ample());
  const auto group = communicator.split(0, ample());
  group->barrier(ample());
  communicator.barrier(ample());
}

void make_fail(const std::string& call, int nth) {
  if (call.starts_with("nccl")) {
    cuda_double::fail(call, nth, ncclSystemError);
  } else {
    cuda_double::fail(call, nth, cudaErrorUnknown);
  }
}

class Faults : public testing::TestWithParam<Kind> {};

// Whichever call fails, every rank comes to an end soon, says why, and leaves nothing behind.
TEST_P(Faults, OfEveryCallAreSurvivedWithoutALeak) {
  cuda_double::reset({.devices = 2});
  expect_gpus(GetParam(), 2, use_it_all);
  const auto calls = cuda_double::calls();
  ASSERT_GT(calls.size(), 10U);
  int reported = 0;
  for (const auto& [call, count] : calls) {
    // A GPU that fails stops at once; on the double, what has begun by then goes on in memory that is freed.
    if (call.ends_with(" execution")) continue;
    // The first, which two ranks make, some of the middle, and the last.
    for (const int nth : std::set<int>{1, 2, 3, count / 2, count - 1, count}) {
      if (nth < 1) continue;
      SCOPED_TRACE(fmt::format("{} #{}", call, nth));
      cuda_double::reset({.devices = 2});
      make_fail(call, nth);
      std::vector<std::string> errors;
      try {
        errors = run_gpus(GetParam(), 2, use_it_all);
      } catch (const std::exception& error) {
        errors = {error.what()};
      }
      auto left = cuda_double::leaks();
      // An aborted communicator takes its registrations along.
      std::erase_if(left, [](const auto& leak) { return leak.kind == "nccl registration"; });
      EXPECT_TRUE(left.empty()) << cuda_double::describe(left);
      for (const auto& error : errors) reported += error.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(reported, 50);
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::Values(nccl(), cuda_local()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace dtrain::comm
