#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/find_model.hpp"
#include "predict/setup.hpp"
#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

using testing::HasSubstr;

const Estimate& at(const Prediction& prediction, int replicas) {
  for (const auto& estimate : prediction.estimates) {
    if (estimate.replicas == replicas) return estimate;
  }
  throw std::runtime_error("no such N");
}

TEST(Predict, FindsAlphaAndBetaAndGoesOnWithThem) {
  const Truth truth;
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16, 64}));
  ASSERT_EQ(prediction.refusal, "");
  EXPECT_EQ(prediction.collective.law, "ring");
  EXPECT_NEAR(prediction.collective.alpha, truth.alpha, 1e-6);
  EXPECT_NEAR(prediction.collective.beta * 12.5e6, 1.0, 1e-3);
  for (const int n : {16, 64}) {
    EXPECT_NEAR(at(prediction, n).step.value / truth.step(n), 1.0, 0.001) << n;
    EXPECT_NEAR(at(prediction, n).images_per_second.value, 64.0 * n / truth.step(n),
                0.001 * 64 * n / truth.step(n));
    EXPECT_NEAR(at(prediction, n).efficiency.value, truth.step(1) / truth.step(n), 0.001);
    EXPECT_NEAR(at(prediction, n).parts.communication / truth.communication(n), 1.0, 0.001);
  }
  EXPECT_EQ(at(prediction, 16).limit, "communication");
}

TEST(Predict, TellsTreeFromRing) {
  for (const LevelLaw& law : {ring(), tree(), halving_doubling()}) {
    const Truth truth{.law = law};
    const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({32}));
    EXPECT_EQ(prediction.collective.law, law.name);
    EXPECT_NEAR(at(prediction, 32).step.value / truth.step(32), 1.0, 0.001) << law.name;
  }
}

TEST(Predict, SaysThatAnotherLawFitsBetterThanTheOneThatIsKnown) {
  // Replicas of one process whose communication is exactly that of a ring.
  const Truth truth{.alpha = 0.0, .beta = 1 * ms / cnn_bytes, .workers = false};
  const auto collective = predict(make_result(truth, {1, 2, 4, 8}), ask({16})).collective;
  EXPECT_EQ(collective.law, "shared memory");
  EXPECT_THAT(collective.others, testing::Contains("ring"));
  EXPECT_THAT(collective.why, HasSubstr("is known to do, taken because it fits about as well as others"));
  EXPECT_THAT(collective.why, HasSubstr("by ring 0.0 %"));
  EXPECT_THAT(collective.why, testing::Not(HasSubstr("no other law")));

  const Truth shared{.alpha = 0.0, .beta = 1 * ms / cnn_bytes, .law = shared_memory(), .workers = false};
  const auto own = predict(make_result(shared, {1, 2, 4, 8}), ask({16})).collective;
  EXPECT_EQ(own.law, "shared memory");
  EXPECT_THAT(own.why, HasSubstr("others fit nearly as well: N that are left out are off by 0.0 %"));
}

TEST(Predict, WorksOutWhatBucketsHidBehindBackward) {
  const Truth truth{
      .forward = 100 * ms, .backward = 200 * ms, .beta = 1.0 / 150e6, .model = "resnet9", .bucket_mb = 4.0};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16, 64}));
  ASSERT_EQ(prediction.refusal, "");
  const double whole = truth.law.cost(8, 26.3e6).bytes * truth.beta;
  ASSERT_LT(truth.communication(8), 0.7 * whole);  // much is hidden
  EXPECT_NEAR(prediction.collective.beta / truth.beta, 1.0, 0.02);
  for (const int n : {16, 64}) EXPECT_NEAR(at(prediction, n).step.value / truth.step(n), 1.0, 0.01) << n;
}

TEST(Predict, SaysWhatItPredictsOfTheMeasuredN) {
  const Truth truth;
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16}));
  ASSERT_EQ(prediction.checks.size(), 4U);
  const std::vector<int> n{1, 2, 4, 8};
  for (std::size_t i = 0; i < n.size(); ++i) {
    const Check& check = prediction.checks[i];
    EXPECT_EQ(check.replicas, n[i]);
    EXPECT_NEAR(check.step, truth.step(n[i]), 1e-9);
    EXPECT_NEAR(check.error, check.predicted / check.step - 1.0, 1e-12);
    EXPECT_NEAR(check.error, 0.0, 0.001);  // three that are left determine the law
  }
}

TEST(Predict, MarksHowFarItReaches) {
  const Prediction prediction = predict(make_result({}, {1, 2, 4}), ask({2, 3, 8, 16, 17, 512}));
  const auto how = [&](int n) { return words(at(prediction, n).distance, n, 4); };
  EXPECT_EQ(how(2), "at a measured N");
  EXPECT_EQ(how(3), "between measured N");
  EXPECT_EQ(how(8), "extrapolated");
  EXPECT_EQ(how(16), "extrapolated");
  EXPECT_THAT(how(17), HasSubstr("far extrapolated: 4 times"));
  EXPECT_EQ(how(512), "far extrapolated: 128 times the largest measured N");
}

TEST(Predict, ShowsWhatWasMeasuredBesideItsOwnFigure) {
  const Prediction prediction = predict(make_result({.round_noise = 0.1}, {1, 2, 4}), ask({4, 8}));
  const Check& seen = prediction.checks.back();
  ASSERT_EQ(seen.replicas, 4);
  EXPECT_EQ(at(prediction, 4).measured_images_per_second, seen.images_per_second);
  EXPECT_EQ(at(prediction, 4).measured_step, seen.step);
  EXPECT_NE(at(prediction, 4).step.value, seen.step);
  EXPECT_FALSE(at(prediction, 8).measured_step);
  Request request = ask({4});
  request.link = parse_link("10gbe", "--link");
  EXPECT_FALSE(predict(make_result({}, {1, 2, 4}), request).estimates.front().measured_step);
}

TEST(Predict, StepsGrowWithNAndIntervalsHoldTheirValue) {
  const Truth truth{.step_noise = 0.03, .round_noise = 0.02};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), ask({4096}));
  double before = 0.0;
  for (const auto& e : prediction.curve) {
    EXPECT_GE(e.step.value, before * (1.0 - 1e-9)) << e.replicas;
    before = e.step.value;
    for (const Range& range : {e.step, e.images_per_second, e.efficiency}) {
      EXPECT_LE(range.low, range.value);
      EXPECT_GE(range.high, range.value);
      EXPECT_GT(range.low, 0.0);
    }
    EXPECT_NEAR(e.images_per_second.value * e.step.value, 64.0 * e.replicas, 1e-6 * e.replicas);
    EXPECT_NEAR(e.parts.step(), e.step.value, 1e-12);
  }
  EXPECT_EQ(prediction.curve.front().replicas, 1);
  EXPECT_EQ(prediction.curve.back().replicas, 4096);
}

TEST(Predict, WaitsForTheSlowestOfMoreReplicas) {
  const Truth truth{.alpha = 0.0, .beta = 1e-12, .step_noise = 0.05};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}, 8), ask({32}));
  // The expected largest of 32 normal values is 2.07 deviations above their mean.
  EXPECT_NEAR(at(prediction, 32).parts.stragglers / truth.computation(1), 2.07 * 0.05, 0.03);
}

TEST(Predict, ReplicasThatShareCoresTakeAsManyTimesAsLong) {
  const Truth truth{.alpha = 0.0, .beta = 1e-12, .law = shared_memory(), .workers = false, .cores = 2};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), ask({8}));
  EXPECT_NEAR(at(prediction, 8).step.value / truth.step(8), 1.0, 0.001);
  EXPECT_TRUE(at(prediction, 8).shares);
  EXPECT_THAT(prediction.notes, testing::Contains(HasSubstr("simulated")));
  EXPECT_TRUE(prediction.checks.back().simulated);
}

TEST(Predict, NamesRunsThatWereUnsteady) {
  EXPECT_THAT(predict(make_result({.round_noise = 0.15}, {1, 2, 4}), ask({8})).notes,
              testing::Contains(HasSubstr("unsteady when measured: ")));
  EXPECT_THAT(predict(make_result({.round_noise = 0.001}, {1, 2, 4}), ask({8})).notes,
              testing::Not(testing::Contains(HasSubstr("unsteady"))));
}

// Waiting replicas leave their cores to the others, so that it is no more than the share that it was.
TEST(Predict, WaitingDoesNotGrowWhereCoresAreFull) {
  const Truth truth{.alpha = 0.0, .beta = 1e-12, .step_noise = 0.05, .workers = false, .cores = 2};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}, 8), ask({8, 64}));
  const auto share = [&](int n) {
    return at(prediction, n).parts.stragglers / at(prediction, n).parts.computation;
  };
  EXPECT_NEAR(share(64), share(8), 1e-9);
  EXPECT_NEAR(share(8), 1.03 * 0.05,
              0.01);  // as among four: the largest of 4 is 1.03 deviations above the mean
}

TEST(Predict, UnderStrongScalingOnlyTheImagesShrink) {
  const Truth truth{.scaling = config::Scaling::strong, .batch = 256, .fixed = 5 * ms};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16, 64}));
  for (const int n : {16, 64}) {
    EXPECT_NEAR(at(prediction, n).step.value / truth.step(n), 1.0, 0.001);
    EXPECT_NEAR(at(prediction, n).images_per_second.value, 256.0 / truth.step(n), 1.0);
    EXPECT_NEAR(at(prediction, n).efficiency.value, truth.step(1) / truth.step(n) / n, 0.001);
  }
}

TEST(Predict, PutsAnotherLinkBetweenHosts) {
  Request request = ask({8, 64});
  request.link = parse_link("100us,1GB/s", "--link");
  const Truth truth;
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), request);
  const Truth other{.alpha = 100e-6, .beta = 1e-9};
  EXPECT_NEAR(at(prediction, 8).step.value / other.step(8), 1.0, 0.03);
  EXPECT_LT(at(prediction, 8).step.value, truth.step(8) / 2);
  EXPECT_EQ(at(prediction, 64).placement.hosts, 64);
  EXPECT_THAT(prediction.collective.from, HasSubstr("100us,1GB/s"));
  request.replicas = {2, 8};
  const Prediction again = predict(make_result(truth, {1, 2, 4}), request);
  EXPECT_EQ(at(again, 2).distance, Distance::otherwise);
  EXPECT_EQ(at(again, 8).distance, Distance::extrapolated);
}

TEST(Predict, PutsAsManyReplicasOnAHostAsAsked) {
  Request request = ask({64});
  request.link = parse_link("ib-hdr", "--link");
  const Truth truth{.law = shared_memory(), .workers = false, .cores = 8};
  EXPECT_EQ(predict(make_result(truth, {1, 2, 4}), request).estimates.front().placement.hosts, 16);
  request.per_host = 8;
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}), request);
  EXPECT_EQ(prediction.estimates.front().placement.hosts, 8);
  EXPECT_FALSE(prediction.estimates.front().shares);
  EXPECT_THAT(prediction.collective.law, HasSubstr("hierarchical"));
  EXPECT_THAT(prediction.notes, testing::Contains(HasSubstr("ib-hdr are figures of the kind of link")));
}

TEST(Predict, FindsWhereCommunicationTakesATenth) {
  const Truth truth{.alpha = 0.0, .beta = 2.02e-3 / cnn_bytes};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16}));
  const Limit& first = prediction.limits.front();
  EXPECT_EQ(first.part, "communication");
  ASSERT_TRUE(first.tenth);
  EXPECT_EQ(*first.tenth, 6);  // 4.04 ms x 5/6 = 3.37 of 33.37 ms; with 5 replicas 3.23 of 33.23 ms
  EXPECT_FALSE(first.overtakes);
  EXPECT_THAT(prediction.verdict, HasSubstr("communication"));
}

TEST(Predict, SaysWhatCompressionAndFewerAveragingsGain) {
  const Truth truth{.alpha = 0.0};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16}));
  const auto gain = [&](const std::string& change) {
    for (const auto& g : prediction.gains) {
      if (g.change == change) return g.factor.value;
    }
    return 0.0;
  };
  const double c = truth.computation(16);
  const double x = truth.communication(16);
  EXPECT_NEAR(gain("--compress bf16"), (c + x) / (c + x / 2), 0.01);
  EXPECT_NEAR(gain("--sync-every 4"), (c + x) / (c + x / 4), 0.01);
  EXPECT_EQ(gain("--bucket-mb 100"), 0.0);  // one bucket as before
}

// Of a model file that is gone, or holds something else by now, nobody knows the buckets.
TEST(Predict, GoesByWhatWasMeasuredNotByTheNameOfAModel) {
  const auto has_buckets = [](const std::string& asked, const std::string& fingerprint) {
    report::Result result = make_result({.model = "resnet9"}, {1, 2, 4});
    result.options.model = asked;
    result.model.fingerprint = fingerprint;
    const Measured measured = take_measured(result, "");
    return make_setup(result, measured, ask({8})).target_model.has_value();
  };
  const std::string known = model::fingerprint(model::find_model("resnet9"));
  EXPECT_TRUE(has_buckets("resnet9", known));
  EXPECT_TRUE(has_buckets("resnet9", ""));
  EXPECT_FALSE(has_buckets("resnet9", "00000000000000aa"));
  EXPECT_FALSE(has_buckets("gone/resnet9.toml", known));
}

TEST(Predict, OfAnotherModelIsByItsOperationsAndBytes) {
  const Truth truth;
  Request request = ask({8});
  const double own = predict(make_result(truth, {1, 2, 4}), request).estimates.front().step.value;
  request.model = model::find_model("resnet9");
  const Prediction other = predict(make_result(truth, {1, 2, 4}), request);
  EXPECT_GT(other.estimates.front().step.value, 10.0 * own);
  EXPECT_THAT(other.notes, testing::Contains(HasSubstr("coarse guess")));
  EXPECT_GT(other.estimates.front().step.high / other.estimates.front().step.low, 1.5);
}

}  // namespace
}  // namespace dtrain::predict
