// Steps that are recorded and replayed are the steps that would have been taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/make_replica.hpp"
#include "double_machine.hpp"
#include "model/zoo.hpp"
#include "steps.hpp"

namespace dtrain::backend::cuda {
namespace {

using dtrain::testing::make_replica;
using dtrain::testing::Records;
using dtrain::testing::Stepper;

struct Trace {
  std::vector<double> losses;
  std::vector<float> weights;
  int enqueued = 0;
  bool operator==(const Trace& other) const { return losses == other.losses && weights == other.weights; }
};

class Graphs : public dtrain::testing::DoubleMachine,
               public ::testing::WithParamInterface<config::Precision> {
 protected:
  std::unique_ptr<Replica> replica(const std::string& optimizer = "adam", bool graphs = true) {
    ReplicaConfig config;
    config.model = &model_;
    config.max_batch = 6;
    config.optimizer = optimizer;
    config.precision = GetParam();
    config.graphs = graphs;
    auto made = make_replica(config);
    made->import_weights(model::initial_weights(model_, 3));
    return made;
  }

  // Six steps of changing batches, sizes and learning rates.
  Trace train(Replica& replica, bool record, bool ahead = false) {
    Stepper stepper(replica);
    Trace trace;
    for (int step = 0; step < 6; ++step) {
      const int count = step == 4 ? 5 : 6;
      const auto result = stepper.step(records_.part(6 * step, count), 1e-3 / (step + 1), record);
      EXPECT_EQ(result.count, count);
      trace.losses.push_back(result.loss_sum);
      if (ahead && step < 5) {
        EXPECT_TRUE(replica.prefetch(records_.part(6 * step + 6, step == 3 ? 5 : 6)));
      }
    }
    trace.weights.resize(model_.parameter_count);
    replica.export_weights(trace.weights);
    trace.enqueued = stepper.enqueued;
    return trace;
  }

  const model::Model model_ = model::zoo().at("cnn").value();
  const Records records_{36};
};

TEST_P(Graphs, ReplaysAreTheSameBits) {
  const auto plain = replica();
  const Trace expected = train(*plain, false);
  EXPECT_EQ(expected.enqueued, 6);
  const auto recorded = replica();
  const Trace replayed = train(*recorded, true);
  EXPECT_EQ(replayed.enqueued, 3);  // run, recorded, replayed; and the step of another size is run
  EXPECT_EQ(replayed.losses, expected.losses);
  EXPECT_EQ(replayed.weights, expected.weights);
}

TEST_P(Graphs, BatchesThatWereBroughtInAheadAreTheSameToo) {
  const auto plain = replica("sgd");
  const auto early = replica("sgd");
  EXPECT_TRUE(train(*early, true, true) == train(*plain, false));
}

TEST_P(Graphs, AreNotRecordedWhenSwitchedOff) {
  const auto off = replica("sgd", false);
  EXPECT_EQ(train(*off, true).enqueued, 6);
  EXPECT_EQ(cuda_double::calls().count("cudaStreamBeginCapture"), 0U);
}

TEST_P(Graphs, MarksOfAReplayAreItsOwn) {
  const auto made = replica("sgd");
  Stepper stepper(*made);
  std::int64_t before = 0;
  for (int step = 0; step < 5; ++step) {
    const Mark begin = made->mark();
    const std::int64_t host_before = now_ns();
    stepper.step(records_.part(0, 6), 1e-3);
    const std::int64_t host_after = now_ns();
    std::vector<std::int64_t> times = {made->time_ns(begin)};
    for (const Mark mark : stepper.marks) times.push_back(made->time_ns(mark));
    EXPECT_TRUE(std::ranges::is_sorted(times));
    EXPECT_GT(times.back(), times[1]);
    EXPECT_GT(times.front(), before);
    constexpr std::int64_t tie = 1'000'000;  // how late the host may have noticed the anchor
    EXPECT_LT(times.back(), host_after + tie);
    EXPECT_GT(times[1], host_before - tie);
    before = times.back();
  }
  EXPECT_EQ(stepper.enqueued, 2);
}

TEST_P(Graphs, RecordsOfADatasetThatIsHeldTrainTheSame) {
  const auto dataset = datasets::open_cifar10("synthetic", true, 7).train;
  const std::vector<std::int32_t> order = {5, 17, 4000, 3, 3, 49'999};
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (const std::int32_t record : order) {
    const auto bytes = dataset->pixels(static_cast<std::size_t>(record));
    pixels.insert(pixels.end(), bytes.begin(), bytes.end());
    labels.push_back(dataset->label(static_cast<std::size_t>(record)));
  }
  std::vector<kernels::Crop> crops(6);
  crops[1] = {3, -2, true};
  const auto by_bytes = replica("sgd");
  const auto by_record = replica("sgd");
  EXPECT_EQ(by_bytes->input_format(), InputFormat::bytes);
  ASSERT_TRUE(by_record->hold_dataset(*dataset));
  EXPECT_EQ(by_record->input_format(), InputFormat::records);
  Stepper bytes_stepper(*by_bytes);
  Stepper record_stepper(*by_record);
  const Batch bytes{.labels = labels.data(), .pixels = pixels.data(), .crops = crops.data(), .count = 6};
  const Batch records{.records = order.data(), .crops = crops.data(), .count = 6};
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(record_stepper.step(records, 0.01).loss_sum, bytes_stepper.step(bytes, 0.01).loss_sum);
  }
  EXPECT_EQ(by_record->evaluate(bytes).loss_sum, by_bytes->evaluate(bytes).loss_sum);
}

TEST_P(Graphs, AnOverflowChangesNothingAndTheNextStepCounts) {
  const auto made = replica();
  Stepper stepper(*made);
  for (int step = 0; step < 3; ++step) stepper.step(records_.part(0, 6), 1e-3);
  std::vector<float> before(model_.parameter_count);
  made->export_weights(before);
  std::vector<float> broken = before;
  broken[model_.parameters.back().offset] = std::numeric_limits<float>::infinity();
  made->import_weights(broken);
  stepper.step(records_.part(0, 6), 1e-3);
  EXPECT_FALSE(made->outcome().applied);
  std::vector<float> after(model_.parameter_count);
  made->export_weights(after);
  EXPECT_EQ(after, broken);
  made->import_weights(before);
  stepper.step(records_.part(0, 6), 1e-3);
  EXPECT_TRUE(made->outcome().applied);
  made->export_weights(after);
  EXPECT_NE(after, before);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Graphs,
                         ::testing::Values(config::Precision::fp32, config::Precision::bf16,
                                           config::Precision::fp16),
                         [](const auto& tested) { return config::name(tested.param); });

}  // namespace
}  // namespace dtrain::backend::cuda
