// Models, and several devices, against the CPU backend.

#include "replica_fixture.hpp"

namespace dtrain::testing {
namespace {

class EachModel : public XlaReplicaTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(EachModel, AStepIsThatOfTheCpuBackend) {
  const model::Model model = make_model(GetParam());
  const Images images(16, 4);
  auto one = devices(model, 16, 1);
  auto reference = cpu(model, 16);
  const MicroStep step = micro(images.part(0, 16), 16, true, true);
  one->fused_step(step);
  take(*reference, step);
  expect_same(look(*one, model), look(*reference, model), 1e-4);
  EXPECT_TRUE(one->outcome().applied);
}

TEST_P(EachModel, AStepAsOtherDevicesAreGivenItIsTheSame) {
  const model::Model model = make_model(GetParam());
  const Images images(16, 4);
  auto other = make_xla_replica(config(model, 16), 1, false);
  other->import_weights(model::initial_weights(model, 3));
  auto reference = cpu(model, 16);
  const MicroStep step = micro(images.part(0, 16), 16, true, true);
  other->fused_step(step);
  take(*reference, step);
  expect_same(look(*other, model), look(*reference, model), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::Values("mlp", "cnn", "resnet9_w8"),
                         [](const auto& tested) { return tested.param; });

class SeveralDevices : public XlaReplicaTest, public ::testing::WithParamInterface<int> {
 protected:
  const model::Model cnn_ = make_model("cnn");
};

TEST_P(SeveralDevices, TrainAsOneCpuReplicaDoes) {
  const Images images(24);
  optimizer_ = "adam";
  auto many = devices(cnn_, 12, GetParam());
  auto reference = cpu(cnn_, 12);
  for (const int step : {1, 2, 3}) {
    const MicroStep whole = micro(images.part(step % 2 * 12, 12), 12, true, true, step);
    many->fused_step(whole);
    take(*reference, whole);
  }
  expect_same(look(*many, cnn_), look(*reference, cnn_), 5e-4);
}

TEST_P(SeveralDevices, TrainWithMomentumAsOneCpuReplicaDoes) {
  const model::Model mlp = make_model("mlp");
  const int batch = 16 * GetParam();  // which XLA's CPU compiler likes to hand to libraries
  const Images images(2 * batch);
  auto many = devices(mlp, batch, GetParam());
  auto reference = cpu(mlp, batch);
  for (const int step : {1, 2, 3}) {
    const MicroStep whole = micro(images.part(step % 2 * batch, batch), batch, true, true, step);
    many->fused_step(whole);
    take(*reference, whole);
    expect_same(look(*many, mlp), look(*reference, mlp), 1e-4);
  }
}

TEST_P(SeveralDevices, SharesThatAreUnevenOrEmptyAreExact) {
  const Images images(7);
  auto many = devices(cnn_, 12, GetParam());
  auto reference = cpu(cnn_, 12);
  for (const int count : {7, 1}) {
    const MicroStep whole = micro(images.part(0, count), count, true, true);
    many->fused_step(whole);
    take(*reference, whole);
    expect_same(look(*many, cnn_), look(*reference, cnn_), 5e-5);
    EXPECT_EQ(many->result(0).count, count);
  }
}

TEST_P(SeveralDevices, AccumulateOverMicroSteps) {
  const Images images(20);
  auto many = devices(cnn_, 12, GetParam());
  auto reference = cpu(cnn_, 20);
  many->fused_step(micro(images.part(0, 12), 20, true, false));
  many->fused_step(micro(images.part(12, 8), 20, false, true));
  take(*reference, micro(images.part(0, 20), 20, true, true));
  expect_same(look(*many, cnn_), look(*reference, cnn_), 5e-5);
}

TEST_P(SeveralDevices, HaveTheSameWeightsBitByBit) {
  const Images images(12);
  auto many = devices(cnn_, 12, GetParam());
  many->fused_step(micro(images.part(0, 12), 12, true, true));
  std::vector<float> first(cnn_.parameter_count);
  std::vector<float> other(cnn_.parameter_count);
  many->held().export_from(0, Group::weights, 0, first);
  for (int d = 1; d < GetParam(); ++d) {
    many->held().export_from(d, Group::weights, 0, other);
    EXPECT_EQ(other, first);
  }
}

TEST_P(SeveralDevices, EvaluateWithoutTouchingTheStep) {
  const Images images(12);
  auto many = devices(cnn_, 12, GetParam());
  auto reference = cpu(cnn_, 12);
  many->fused_step(micro(images.part(0, 12), 12, true, true));
  take(*reference, micro(images.part(0, 12), 12, true, true));
  const auto want = reference->evaluate(images.part(0, 9));
  const auto got = many->evaluate(images.part(0, 9));
  EXPECT_NEAR(got.loss_sum / want.loss_sum, 1.0, 1e-5);
  EXPECT_EQ(got.correct, want.correct);
  EXPECT_EQ(got.count, 9);
  EXPECT_EQ(many->result(0).count, 12);
  EXPECT_EQ(many->evaluate(images.part(0, 0)).count, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, SeveralDevices, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace dtrain::testing
