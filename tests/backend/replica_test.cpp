// The contract of a replica, whichever backend made it.

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/random.hpp"
#include "make_replica.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;
using backend::Batch;
using backend::Range;

class RecordingSink final : public backend::GradientSink {
 public:
  void bucket_ready(int bucket, backend::DeviceToken) override { order.push_back(bucket); }
  std::vector<int> order;
};

struct Images {
  explicit Images(int count, std::uint64_t seed = 1) : labels(static_cast<std::size_t>(count)) {
    Random random(seed);
    pixels.resize(static_cast<std::size_t>(count) * 3072);
    for (float& pixel : pixels) pixel = static_cast<float>(random.normal());
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(10));
  }
  Batch part(int first, int count) const {
    return {.images = pixels.data() + static_cast<std::size_t>(first) * 3072,
            .labels = labels.data() + first,
            .count = count};
  }
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

class EachModel : public ::testing::TestWithParam<std::string> {
 protected:
  static model::Model make_model() {
    return GetParam() == "resnet9_w8" ? model::resnet9(8) : model::zoo().at(GetParam()).value();
  }
  std::unique_ptr<backend::Replica> replica(int batch, config::Precision precision = config::Precision::fp32,
                                            int threads = 1, int slots = 1, std::size_t bucket = 25'000'000) {
    backend::ReplicaConfig config;
    config.model = &model_;
    config.max_batch = batch;
    config.precision = precision;
    config.threads = threads;
    config.slots = slots;
    config.bucket_bytes = bucket;
    config.check_buckets = check_buckets_;
    auto made = dtrain::testing::make_replica(config);
    made->import_weights(model::initial_weights(model_, 3));
    return made;
  }
  std::vector<float> gradients(backend::Replica& replica) {
    std::vector<float> canonical(model_.parameter_count);
    replica.export_gradients(canonical);
    return canonical;
  }
  // Difference from `want` relative to each parameter's largest.
  double difference(const std::vector<float>& got, const std::vector<float>& want) {
    double worst = 0.0;
    for (const auto& parameter : model_.parameters) {
      double largest = 1e-20;
      double gap = 0.0;
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        largest = std::max(largest, static_cast<double>(std::abs(want[i])));
        gap = std::max(gap, static_cast<double>(std::abs(got[i] - want[i])));
      }
      worst = std::max(worst, gap / largest);
    }
    return worst;
  }
  model::Model model_ = make_model();
  RecordingSink sink_;
  bool check_buckets_ = false;
};

TEST_P(EachModel, WeightsSurviveTheLayout) {
  auto made = replica(8);
  std::vector<float> out(model_.parameter_count);
  made->export_weights(out);
  EXPECT_EQ(out, model::initial_weights(model_, 3));
}

TEST_P(EachModel, GradientIsTheSlopeOfTheLoss) {
  if (model_.has_batch_statistics())
    GTEST_SKIP() << "kinks of batch norm's ReLUs: held against the golden numbers instead";
  const Images images(6);
  auto made = replica(6);
  made->forward(0, images.part(0, 6));
  made->backward(0, 1.0F, true, true, sink_);
  const auto slope = gradients(*made);
  auto weights = model::initial_weights(model_, 3);

  // Along the gradient itself the loss changes by its squared length: a wrong factor or a missing part shows.
  const double squares = std::inner_product(slope.begin(), slope.end(), slope.begin(), 0.0);
  const double step = 2e-4 / std::sqrt(squares);
  const auto loss_at = [&](double distance) {
    auto moved = weights;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(distance * slope[i]);
    made->import_weights(moved);
    return made->evaluate(images.part(0, 6)).loss_sum;
  };
  EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2.0 * step * squares), 1.0, 0.02);
}

TEST_P(EachModel, SmallerBatchesUseTheSameReplica) {
  if (model_.has_batch_statistics()) GTEST_SKIP() << "statistics of a batch differ from those of its parts";
  const Images images(13);
  auto whole = replica(13);
  whole->forward(0, images.part(0, 13));
  whole->backward(0, 1.0F / 13, true, true, sink_);
  const auto want = gradients(*whole);

  auto parts = replica(16);
  int first = 0;
  for (const int count : {7, 5, 0, 1}) {
    parts->forward(0, images.part(first, count));
    parts->backward(0, 1.0F / 13, first == 0, first + count == 13, sink_);
    first += count;
  }
  EXPECT_LT(difference(gradients(*parts), want), 2e-5);
}

TEST_P(EachModel, NoImageGivesZeroGradients) {
  const Images images(4);
  auto made = replica(4);
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, true, true, sink_);
  sink_.order.clear();
  made->forward(0, images.part(0, 0));
  made->backward(0, 1.0F, true, true, sink_);
  EXPECT_EQ(gradients(*made), std::vector<float>(model_.parameter_count, 0.0F));
  EXPECT_EQ(sink_.order.size(), made->buckets().size());
  EXPECT_EQ(made->result(0).count, 0);
}

TEST_P(EachModel, ThreadsDoNotChangeTheGradient) {
  const Images images(10);
  auto one = replica(10);
  auto two = replica(10, config::Precision::fp32, 2);
  for (auto* made : {one.get(), two.get()}) {
    made->forward(0, images.part(0, 10));
    made->backward(0, 0.1F, true, true, sink_);
  }
  EXPECT_LT(difference(gradients(*two), gradients(*one)), 2e-5);
}

TEST_P(EachModel, TheSameStepTwiceIsTheSameBits) {
  const Images images(10);
  auto made = replica(10);
  std::vector<float> before;
  for (int i = 0; i < 2; ++i) {
    made->forward(0, images.part(0, 10));
    made->backward(0, 0.1F, true, true, sink_);
    if (i == 0) before = gradients(*made);
  }
  EXPECT_EQ(gradients(*made), before);
}

TEST_P(EachModel, SlotsKeepMicroBatchesApart) {
  const Images images(8);
  auto serial = replica(4);
  for (const int k : {0, 1}) {
    serial->forward(0, images.part(4 * k, 4));
    serial->backward(0, 0.125F, k == 0, k == 1, sink_);
  }
  auto flying = replica(4, config::Precision::fp32, 1, 2);
  flying->forward(0, images.part(0, 4));
  flying->forward(1, images.part(4, 4));
  flying->backward(0, 0.125F, true, false, sink_);
  flying->backward(1, 0.125F, false, true, sink_);
  EXPECT_EQ(gradients(*flying), gradients(*serial));
}

TEST_P(EachModel, BucketsCoverTheBufferFromTheLastLayerOn) {
  auto made = replica(4, config::Precision::fp32, 1, 1, 4096);
  const auto buckets = made->buckets();
  EXPECT_GT(buckets.size(), 1U);
  std::size_t end = made->weights().size();
  for (const Range& bucket : buckets) {
    EXPECT_EQ(bucket.offset + bucket.size, end);
    end = bucket.offset;
  }
  EXPECT_EQ(end, 0U);
  const Images images(4);
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, true, false, sink_);
  EXPECT_TRUE(sink_.order.empty());
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, false, true, sink_);
  std::vector<int> ascending(buckets.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(sink_.order, ascending);
}

TEST_P(EachModel, Bf16RoundsButLearnsTheSame) {
  const Images images(16);
  auto exact = replica(16);
  auto rounded = replica(16, config::Precision::bf16);
  for (auto* made : {exact.get(), rounded.get()}) {
    made->forward(0, images.part(0, 16));
    made->backward(0, 1.0F / 16, true, true, sink_);
  }
  const double loss = exact->result(0).loss_sum / 16;
  const double bf16_loss = rounded->result(0).loss_sum / 16;
  EXPECT_NE(loss, bf16_loss);
  EXPECT_NEAR(bf16_loss / loss, 1.0, 0.05);
  std::vector<float> master(model_.parameter_count);
  rounded->export_weights(master);
  EXPECT_EQ(master, model::initial_weights(model_, 3));
}

TEST_P(EachModel, OneNotANumberPixelBreaksTheGradient) {
  Images images(4);
  images.pixels[5000] = std::numeric_limits<float>::quiet_NaN();
  auto made = replica(4);
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, true, true, sink_);
  made->update({0, made->weights().size()}, {}, false);
  EXPECT_FALSE(made->outcome().applied);
}

TEST_P(EachModel, AGuardedUpdateLeavesEverythingAloneAfterAnOverflow) {
  const Images images(4);
  auto made = replica(4);
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, true, true, sink_);
  made->synchronize(Deadline::in(Seconds(60.0)));
  made->gradients()[made->gradients().size() / 2] = std::numeric_limits<float>::infinity();
  made->update({0, made->weights().size()}, {}, true);
  EXPECT_FALSE(made->outcome().applied);
  EXPECT_TRUE(made->outcome().weights_finite);
  std::vector<float> weights(model_.parameter_count);
  made->export_weights(weights);
  EXPECT_EQ(weights, model::initial_weights(model_, 3));
  for (const float value : made->optimizer_state(0)) ASSERT_EQ(value, 0.0F);
  made->forward(0, images.part(0, 4));
  made->backward(0, 1.0F, true, true, sink_);
  EXPECT_TRUE(made->outcome().applied);  // the next step starts afresh
}

TEST_P(EachModel, LooksAtItsOwnBucketsWhenAsked) {
  Images images(4);
  images.pixels[5000] = std::numeric_limits<float>::quiet_NaN();
  for (const bool check : {false, true}) {
    check_buckets_ = check;
    auto made = replica(4);
    made->forward(0, images.part(0, 4));
    made->backward(0, 1.0F, true, true, sink_);
    EXPECT_EQ(made->outcome().own_finite, !check);
  }
}

TEST_P(EachModel, ResultsAddUpOverMicroSteps) {
  const Images images(8);
  auto made = replica(4);
  double sum = 0.0;
  for (const int k : {0, 1}) {
    made->forward(0, images.part(4 * k, 4));
    made->backward(0, 0.125F, true, true, sink_);
    sum += made->result(0).loss_sum;
  }
  for (const int k : {0, 1}) {
    made->forward(0, images.part(4 * k, 4));
    made->backward(0, 0.125F, k == 0, k == 1, sink_);
  }
  EXPECT_NEAR(made->result(0).loss_sum, sum, 1e-9);
  EXPECT_EQ(made->result(0).count, 8);
}

TEST_P(EachModel, StateLeavesAndEntersInCanonicalOrder) {
  const Images images(4);
  auto made = replica(4);
  made->forward(0, images.part(0, 4));
  made->backward(0, 0.25F, true, true, sink_);
  made->update({0, made->weights().size()}, {}, false);
  std::vector<float> moment(model_.parameter_count);
  made->export_optimizer_state(0, moment);
  const auto slope = gradients(*made);
  for (std::size_t i = 0; i < slope.size(); ++i) EXPECT_NEAR(moment[i], 0.1F * slope[i], 1e-6F);

  auto other = replica(4);
  other->import_optimizer_state(0, moment);
  EXPECT_TRUE(std::ranges::equal(other->optimizer_state(0), made->optimizer_state(0)));
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::Values("mlp", "cnn", "resnet9_w8"),
                         [](const auto& tested) { return tested.param; });

TEST(BatchNorm, RunningStatisticsFollowTheBatchAndServeEvaluation) {
  const model::Model model = model::resnet9(8);
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = 32;
  auto replica = dtrain::testing::make_replica(config);
  replica->import_weights(model::initial_weights(model, 1));
  const Images images(32);
  RecordingSink sink;
  for (int i = 0; i < 120; ++i) replica->forward(0, images.part(0, 32));
  replica->backward(0, 0.0F, true, true, sink);
  replica->synchronize(Deadline::in(Seconds(300.0)));
  // After many passes over one batch the running values are the batch's, up to the unbiased variance.
  const auto training = replica->result(0);
  const auto evaluation = replica->evaluate(images.part(0, 32));
  EXPECT_NEAR(evaluation.loss_sum / training.loss_sum, 1.0, 0.05);
  EXPECT_EQ(evaluation.count, 32);
}

}  // namespace
