#pragma once

#include <gtest/gtest.h>

#include "cuda_double/double.hpp"

namespace dtrain::testing {

// A machine of doubles that is made before the members of a test that derives from this, and is left without
// leaks.
class DoubleMachine : public ::testing::Test {
 protected:
  explicit DoubleMachine(const cuda_double::Setup& setup = {}) { cuda_double::reset(setup); }
  ~DoubleMachine() override { EXPECT_EQ(cuda_double::describe(cuda_double::leaks()), ""); }
};

}  // namespace dtrain::testing
