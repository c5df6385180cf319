#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "result_file.hpp"
#include "sample_results.hpp"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

using ResultRefusals = ResultFile;

TEST_F(ResultRefusals, RefusesWhatIsNotAResultFile) {
  EXPECT_THAT(refusal(""), HasSubstr("result.json: is empty"));
  EXPECT_THAT(refusal(" \n\t"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("hello"), HasSubstr("result.json: is not JSON at byte 1 of 5"));
  EXPECT_THAT(refusal("{\"schema\": NaN}"), HasSubstr("is not JSON at byte 12"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("(top): is [1,2], must be an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("schema: is missing"));
  EXPECT_THAT(refusal("{\"schema\": 1e999}"), HasSubstr("out of range"));
  EXPECT_THAT(refusal_of(folder_ / "none.json"), HasSubstr("none.json: no such file"));
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(refusal_of(folder_ / "empty"), HasSubstr("empty/result.json: no such file"));
  fs::create_directories(folder_ / "deep" / "result.json");
  EXPECT_THAT(refusal_of(folder_ / "deep"), HasSubstr("deep/result.json: is a folder"));
}

TEST_F(ResultRefusals, RefusesEveryTruncation) {
  const std::string whole = to_json(one_point_result());
  for (std::size_t size = 1; size + 2 < whole.size(); size += 97) {
    const std::string why = refusal(whole.substr(0, size));
    EXPECT_THAT(why, HasSubstr("is not JSON")) << size;
    EXPECT_THAT(why, HasSubstr(fmt::format("of {}", size)));
  }
  EXPECT_THAT(refusal(whole.substr(0, whole.size() / 2)), HasSubstr("truncated?"));
}

TEST_F(ResultRefusals, RefusesAnotherSchema) {
  using P = json::json_pointer;
  EXPECT_THAT(refusal_with(P("/schema"), "dtrain.result/2"),
              HasSubstr("schema: is \"dtrain.result/2\", must be \"dtrain.result/1\""));
  EXPECT_THAT(refusal_with(P("/schema"), 1), HasSubstr("schema: is 1, must be"));
}

TEST_F(ResultRefusals, NamesAMissingKeyByItsPath) {
  using P = json::json_pointer;
  for (const char* key : {"/complete",
                          "/created",
                          "/command",
                          "/build",
                          "/build/commit",
                          "/machine/key",
                          "/config",
                          "/config/strategy",
                          "/config/precision",
                          "/config/scaling",
                          "/config/device",
                          "/dataset/images",
                          "/model",
                          "/runs",
                          "/runs/2/id",
                          "/runs/2/base",
                          "/runs/2/replicas",
                          "/runs/2/simulated",
                          "/runs/2/rounds",
                          "/runs/2/rounds/1/images",
                          "/runs/2/rounds/1/seconds",
                          "/runs/2/rounds/1/ranks/0/phases",
                          "/runs/2/rounds/1/ranks/0/phases/update"}) {
    std::string path = std::string(key).substr(1);
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at)) {
      const std::size_t end = std::min(path.find('/', at + 1), path.size());
      const std::string step = path.substr(at + 1, end - at - 1);
      const bool index = step.find_first_not_of("0123456789") == std::string::npos;
      path.replace(at, end - at, index ? "[" + step + "]" : "." + step);
    }
    EXPECT_THAT(refusal_without(P(key)), HasSubstr("result.json: " + path + ": is missing"));
  }
}

TEST_F(ResultRefusals, RefusesWrongTypesAndImpossibleValues) {
  using P = json::json_pointer;
  EXPECT_THAT(refusal_with(P("/complete"), "yes"), HasSubstr("complete: is \"yes\", must be true or false"));
  EXPECT_THAT(refusal_with(P("/command"), 3), HasSubstr("command: is 3, must be text"));
  EXPECT_THAT(refusal_with(P("/runs"), json::object()), HasSubstr("runs: is {}, must be an array"));
  EXPECT_THAT(refusal_with(P("/runs/1"), nullptr), HasSubstr("runs[1]: is null, must be an object"));
  EXPECT_THAT(refusal_with(P("/runs/1/base"), "other"), HasSubstr("runs[1].base: is \"other\""));
  EXPECT_THAT(refusal_with(P("/runs/1/replicas"), 0), HasSubstr("runs[1].replicas: is 0, must be above 0"));
  EXPECT_THAT(refusal_with(P("/runs/1/replicas"), 1.5), HasSubstr("must be a whole number"));
  EXPECT_THAT(refusal_with(P("/runs/1/replicas"), 3'000'000'000),
              HasSubstr("3000000000, which is out of range"));
  EXPECT_THAT(refusal_with(P("/dataset/images"), -1),
              HasSubstr("dataset.images: is -1, which is out of range"));
  EXPECT_THAT(refusal_with(P("/environment/A"), 1), HasSubstr("environment.A: is 1, must be text"));
  EXPECT_THAT(refusal_with(P("/config/precision"), "fp31"), HasSubstr("config.precision: "));
  EXPECT_THAT(refusal_with(P("/config/gpus"), json::parse("[2, 0]")), HasSubstr("config.gpus[1]: is 0"));
  const P round("/runs/2/rounds/1");
  const auto refused = [&](const char* key, const json& value) { return refusal_with(round / key, value); };
  EXPECT_THAT(refused("seconds", 0), HasSubstr("runs[2].rounds[1].seconds: is 0, must be above 0"));
  EXPECT_THAT(refused("seconds", -1.5), HasSubstr("runs[2].rounds[1].seconds: is -1.5, must be above 0"));
  EXPECT_THAT(refused("seconds", nullptr), HasSubstr("runs[2].rounds[1].seconds: is null, must be a number"));
  EXPECT_THAT(refused("seconds", "1"), HasSubstr("runs[2].rounds[1].seconds: is \"1\", must be a number"));
  EXPECT_THAT(refused("images", 0), HasSubstr("runs[2].rounds[1].images: is 0, must be above 0"));
  EXPECT_THAT(refused("images", -64), HasSubstr("runs[2].rounds[1].images: is -64, must be above 0"));
  EXPECT_THAT(refused("calibration_seconds", -1), HasSubstr("must not be negative"));
  EXPECT_THAT(refused("step_seconds", json::parse("[0.1, -0.1]")), HasSubstr("step_seconds[1]: is -0.1"));
  EXPECT_THAT(refused("step_seconds", json::parse("[null]")), HasSubstr("step_seconds[0]: is null"));
  EXPECT_THAT(refusal_with(round / "ranks" / 0 / "phases" / "input", -1),
              HasSubstr("ranks[0].phases.input: is -1"));
  EXPECT_THAT(refusal_with(P("/runs/3/budget/straggler/rank"), "rank x"),
              HasSubstr("straggler.rank: is \"rank x\""));
}

}  // namespace
}  // namespace dtrain::report
