#include "predict/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

using testing::HasSubstr;

class SweepFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void expect_data_error(const std::string& text, const std::string& word) {
    try {
      read_sweep(write(text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::data);
      EXPECT_THAT(error.what(), HasSubstr(word));
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "predict_sweep.json";
};

const std::string good =
    R"({"schema": "dtrain.allreduce/1", "communicator": "gloo", "compress": "none", "workers": 2,
  "ranks": 4, "sizes": [{"bytes": 1000, "time_us": {"median": 250.5, "low": 200, "high": 300}, "algorithm": "ring",
  "values_ok": true}]})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = good;
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(SweepFile, IsRead) {
  const Sweep sweep = read_sweep(write(good));
  EXPECT_EQ(sweep.communicator, "gloo");
  EXPECT_EQ(sweep.workers, 2);
  EXPECT_EQ(sweep.ranks, 4);
  ASSERT_EQ(sweep.sizes.size(), 1U);
  EXPECT_EQ(sweep.sizes[0].bytes, 1000U);
  EXPECT_DOUBLE_EQ(sweep.sizes[0].seconds, 250.5e-6);
}

TEST_F(SweepFile, OfAnythingElseIsADataError) {
  expect_data_error("", "not JSON");
  expect_data_error("{", "not JSON");
  expect_data_error("[]", "object");
  expect_data_error("{}", "schema");
  expect_data_error(with("dtrain.allreduce/1", "dtrain.result/1"), "schema");
  expect_data_error(with("\"median\": 250.5", "\"median\": null"), "time_us.median");
  expect_data_error(with("\"median\": 250.5", "\"median\": -1"), "time_us.median");
  expect_data_error(with("\"ranks\": 4", "\"ranks\": 1"), "ranks");
  expect_data_error(with("\"workers\": 2", "\"workers\": 0"), "workers");
  expect_data_error(with("\"values_ok\": true", "\"values_ok\": false"), "values_ok");
  expect_data_error(with("\"bytes\": 1000", "\"bytes\": 0"), "bytes");
  expect_data_error(with("\"ranks\": 4", "\"ranks\": 1000000"), "ranks");
  EXPECT_THROW(read_sweep(path_.string() + ".none"), Error);
}

TEST_F(SweepFile, OfTimesThatCannotBeIsADataError) {
  const std::string times = R"({"median": 250.5, "low": 200, "high": 300})";
  expect_data_error(with("\"median\": 250.5", "\"median\": 1e300"), "sizes[0].time_us.median: is 1e+300");
  expect_data_error(with("\"median\": 250.5", "\"median\": 400"), "outside its own interval, 200 to 300");
  expect_data_error(with("\"median\": 250.5", "\"median\": 100"), "outside its own interval");
  expect_data_error(with(times, R"({"median": 1e10, "low": 9e9, "high": 2e10})"), "more than an hour");
  expect_data_error(with(times, R"({"median": 1e-6, "low": 1e-6, "high": 1e-6})"),
                    "no machine exchanges 1000 bytes");
  EXPECT_DOUBLE_EQ(read_sweep(write(with(times, R"({"median": 7.5})"))).sizes[0].seconds, 7.5e-6);
}

TEST(Sweeps, GiveAlphaAndBeta) {
  const Truth truth;
  Request request = ask({16});
  request.sweeps = {make_sweep(truth, 2), make_sweep(truth, 4)};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), request);
  EXPECT_EQ(prediction.collective.law, "ring");
  EXPECT_NEAR(prediction.collective.alpha / truth.alpha, 1.0, 0.01);
  EXPECT_NEAR(prediction.collective.beta / truth.beta, 1.0, 0.01);
  EXPECT_NEAR(prediction.estimates.front().step.value / truth.step(16), 1.0, 0.01);
  EXPECT_THAT(prediction.collective.from, HasSubstr("2 sweeps"));
}

TEST(Sweeps, AreHeldAgainstTheRuns) {
  Truth truth;
  Request request = ask({16});
  request.sweeps = {make_sweep(truth, 2), make_sweep(truth, 4)};
  truth.alpha *= 1.3;  // gradients take longer than a sweep's buffers
  truth.beta *= 1.3;
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), request);
  EXPECT_THAT(prediction.collective.from, HasSubstr("1.30 times"));
  EXPECT_NEAR(prediction.estimates.front().step.value / truth.step(16), 1.0, 0.01);
}

void expect_refused(const report::Result& result, const Sweep& sweep, const std::string& word) {
  Request request = ask({16});
  request.sweeps = {sweep};
  try {
    predict(result, request);
    ADD_FAILURE() << word;
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::data);
    EXPECT_THAT(error.what(), HasSubstr(sweep.file + ": " + word));
  }
}

TEST(Sweeps, OfAnotherCommunicatorAreRefused) {
  Sweep sweep = make_sweep({}, 2);
  sweep.communicator = "gloo";
  expect_refused(make_result({}, {1, 2, 4}), sweep,
                 "communicator: is 'gloo', and the result was measured with mpi");
  sweep.communicator = "carrier pigeon";
  expect_refused(make_result({}, {1, 2, 4}), sweep, "communicator: is 'carrier pigeon'");
  sweep.workers = 1;
  expect_refused(make_result({}, {1, 2, 4}), sweep, "communicator");

  report::Result one_process = make_result({.workers = false}, {1, 2, 4});
  for (const char* comm : {"auto", "shared_memory", "gloo"}) {  // gloo: for workers that there were not
    one_process.options.comm = comm;
    expect_refused(one_process, sweep,
                   "communicator: is 'carrier pigeon', and the result was measured with shared_memory");
    expect_refused(one_process, make_sweep({}, 2), "workers: is 2");
    Request request = ask({16});
    request.sweeps = {sweep};
    request.sweeps[0].communicator = "shared_memory";
    EXPECT_THAT(predict(one_process, request).collective.from, HasSubstr("1 sweep "));
  }
}

TEST(Sweeps, GivenTwiceCountOnce) {
  Request request = ask({16});
  request.sweeps = {make_sweep({}, 2), make_sweep({}, 2), make_sweep({}, 2)};
  request.sweeps[2].file = "copy.json";
  const Prediction prediction = predict(make_result({}, {1, 2, 4}), request);
  EXPECT_THAT(prediction.collective.from, HasSubstr("1 sweep "));
  EXPECT_THAT(prediction.notes, testing::Contains("sweep-2.json: given twice, and counted once"));
  EXPECT_THAT(prediction.notes,
              testing::Contains("copy.json: not used, for it is the same measurement as sweep-2.json"));
}

TEST(Sweeps, FarFromTheRunsAreWarnedOf) {
  const auto notes = [](double factor) {
    Truth truth;
    Request request = ask({16});
    request.sweeps = {make_sweep(truth, 2), make_sweep(truth, 4)};
    truth.alpha *= factor;
    truth.beta *= factor;
    return predict(make_result(truth, {1, 2, 4}), request).notes;
  };
  EXPECT_THAT(notes(4.0), testing::Contains(HasSubstr("take 4.00 times as long as the sweeps say")));
  EXPECT_THAT(notes(0.01), testing::Contains(HasSubstr("take 0.01 times as long as the sweeps say")));
  for (const double near : {0.5, 1.0, 2.5}) {
    EXPECT_THAT(notes(near), testing::Not(testing::Contains(HasSubstr("as long as the sweeps say"))));
  }
}

TEST(Sweeps, ThatCannotBeUsedAreNamed) {
  Request request = ask({16});
  request.sweeps = {make_sweep({}, 2), make_sweep({}, 1), make_sweep({}, 4)};
  request.sweeps[1].communicator = "shared_memory";
  request.sweeps[2].compress = "fp16";
  const Prediction prediction = predict(make_result({}, {1, 2, 4}), request);
  EXPECT_THAT(prediction.notes, testing::Contains(HasSubstr("sweep-1.json: not used")));
  EXPECT_THAT(prediction.notes, testing::Contains(HasSubstr("sweep-4.json: not used")));
  EXPECT_THAT(prediction.collective.from, HasSubstr("1 sweep "));
}

}  // namespace
}  // namespace dtrain::predict
