#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "worlds.hpp"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace dtrain::train {
namespace {

// Of everything in a step: pipeline, replica, communicator, strategy, stamps. Losses are kept between
// stretches, and growing that array is all that may cost more in a longer one.
TEST(Allocation, NoneInAStep) {
  testing::WorldSetup setup(2, 12, {}, testing::softmax_regression(), 1200);
  setup.options.accumulate = 2;
  setup.config.live = std::make_shared<measure::LiveStep>();
  setup.use("mirrored", 2, 12);
  World world(setup.config);
  world.run(10);
  const auto cost = [&](int steps) {
    const long before = allocations;
    world.run(steps);
    return allocations - before;
  };
  const long few = cost(2);
  const long many = cost(60);
  EXPECT_LE(many, few + 6);
}

}  // namespace
}  // namespace dtrain::train
