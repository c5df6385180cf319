#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace dtrain {

// Runs `work`, which must throw an Error of this category whose two lines together contain every word.
template <class Work>
void expect_error(Work&& work, ErrorCategory category, const std::vector<std::string>& words) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(name(error.category()), name(category)) << error.what();
    const std::string text = std::string(error.what()) + "\n" + error.advice();
    for (const auto& word : words) EXPECT_THAT(text, testing::HasSubstr(word));
    EXPECT_FALSE(error.advice().empty()) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace dtrain
