#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

using testing::HasSubstr;

void expect_error(ErrorCategory category, const std::string& word, const report::Result& result,
                  const Request& request = ask({8})) {
  try {
    predict(result, request);
    ADD_FAILURE() << word;
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), category) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Refusal, NeedsThreeN) {
  for (const auto& n : {std::vector<int>{1}, std::vector<int>{1, 2}}) {
    const Prediction prediction = predict(make_result({}, n), ask({8}));
    EXPECT_THAT(prediction.refusal, HasSubstr("--replicas 1,2,4"));
    EXPECT_TRUE(prediction.estimates.empty());
  }
  EXPECT_EQ(predict(make_result({}, {1, 2, 4}), ask({8})).refusal, "");
}

TEST(Refusal, CountsOnlyRunsThatCanBeUsed) {
  report::Result failed = make_result({}, {1, 2, 4});
  failed.samples.runs[1].failure = "rank 1 was lost";
  EXPECT_THAT(predict(failed, ask({8})).refusal, HasSubstr("N measured with multi-worker: 1, 4"));
  EXPECT_THAT(predict(failed, ask({8})).refusal,
              HasSubstr("not used: multi-worker-2: it failed: rank 1 was lost"));

  report::Result apart = make_result({}, {1, 2, 4});
  apart.samples.runs[2].weights_agree = false;
  EXPECT_THAT(predict(apart, ask({8})).refusal,
              HasSubstr("not used: multi-worker-4: its ranks ended with different weights"));

  report::Result exact = make_result({}, {1, 2, 4});
  exact.samples.runs[2].plan.exact = true;
  EXPECT_NE(predict(exact, ask({8})).refusal, "");

  report::Result empty = make_result({}, {1, 2, 4});
  empty.samples.runs[1].failure = "x";
  empty.samples.runs[2].rounds.clear();
  EXPECT_THAT(predict(empty, ask({8})).refusal,
              HasSubstr("multi-worker-2: it failed: x; multi-worker-4: no round was measured"));
  EXPECT_THAT(predict(make_result({}, {1, 2}), ask({8})).refusal, testing::Not(HasSubstr("not used")));
}

TEST(Refusal, SaysWhatItLeftOut) {
  report::Result result = make_result({}, {1, 2, 4, 8});
  result.samples.runs[1].failure = "rank 1 was lost";
  const Prediction prediction = predict(result, ask({16}));
  EXPECT_EQ(prediction.refusal, "");
  EXPECT_EQ(prediction.checks.size(), 3U);
  EXPECT_THAT(prediction.notes, testing::Contains(HasSubstr("multi-worker-2: it failed: rank 1 was lost")));
}

TEST(Refusal, CommunicationThatWasHiddenAltogetherSaysNothing) {
  report::Result result = make_result({.alpha = 0.0, .beta = 0.0}, {1, 2, 4});
  EXPECT_THAT(predict(result, ask({8})).refusal, HasSubstr("--allreduce FILE"));
  Request with_sweep = ask({8});
  with_sweep.sweeps = {make_sweep({}, 2), make_sweep({}, 4)};
  EXPECT_EQ(predict(result, with_sweep).refusal, "");
}

TEST(Refusal, OfUnsoundResultsIsAnError) {
  report::Result incomplete = make_result({}, {1, 2, 4});
  incomplete.samples.complete = false;
  expect_error(ErrorCategory::data, "did not run to its end", incomplete);
  Request named = ask({8});
  named.file = "there/result.json";
  expect_error(ErrorCategory::data, "there/result.json: the measurement", incomplete, named);

  report::Result infinite = make_result({}, {1, 2, 4});
  infinite.samples.runs[1].rounds[0].ranks[1].host = std::numeric_limits<double>::infinity();
  expect_error(ErrorCategory::data, "multi-worker-2", infinite);
  expect_error(ErrorCategory::data, "there/result.json: run multi-worker-2", infinite, named);

  report::Result nothing = make_result({}, {1, 2, 4});
  nothing.samples.runs[2].rounds[3].steps = 0;
  expect_error(ErrorCategory::data, "multi-worker-4", nothing);

  report::Result empty = make_result({}, {1, 2, 4});
  empty.model.parameters = 0;
  expect_error(ErrorCategory::data, "model.parameters", empty);

  report::Result servers = make_result({}, {1, 2, 4});
  servers.options.strategy = "parameter-server";
  for (auto& run : servers.samples.runs) run.plan.strategy = "parameter-server";
  expect_error(ErrorCategory::usage, "parameter-server", servers);
  for (const char* other : {"pipeline", "tensor", "sharded", "tpu", "all"}) {
    servers.options.strategy = other;
    expect_error(ErrorCategory::usage, fmt::format("--strategy {}", other), servers);
  }
}

TEST(Refusal, OfImpossibleRequestsIsAnError) {
  const report::Result result = make_result({}, {1, 2, 4});
  expect_error(ErrorCategory::usage, "--replicas 0", result, ask({0}));
  expect_error(ErrorCategory::usage, "--replicas 1000001", result, ask({1'000'001}));
  Request per_host = ask({8});
  per_host.per_host = 4;
  expect_error(ErrorCategory::usage, "--per-host 4 needs --link", result, per_host);
  const Truth strong{.scaling = config::Scaling::strong, .batch = 64};
  expect_error(ErrorCategory::usage, "--replicas 65", make_result(strong, {1, 2, 4}), ask({65}));
}

}  // namespace
}  // namespace dtrain::predict
