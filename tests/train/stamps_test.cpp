#include "train/stamps.hpp"

#include <gtest/gtest.h>

#include "../strategy/fake_replica.hpp"

namespace dtrain::train {
namespace {

// A device on whose time line every mark lies twice as far from the last as the one before: 1, 3, 7, 15, ...,
// so that every interval is told from every other.
class DoublingReplica final : public backend::Replica {
 public:
  backend::InputFormat input_format() const override { return backend::InputFormat::nchw; }
  std::span<const backend::Slot> slots() const override { return {}; }
  std::span<const backend::Range> buckets() const override { return buckets_; }
  std::span<float> weights() override { return {}; }
  std::span<float> gradients() override { return {}; }
  std::span<float> optimizer_state(int) override { return {}; }
  void import_statistics(std::span<const float>) override {}
  void export_statistics(std::span<float>) override {}
  void clear_gradients() override {}
  void import_weights(std::span<const float>) override {}
  void export_weights(std::span<float>) override {}
  void export_gradients(std::span<float>) override {}
  void forward(int, const backend::Batch&) override {}
  void backward(int, float, bool, bool, backend::GradientSink&) override {}
  backend::BatchResult result(int) override { return {}; }
  void update(backend::Range, const kernels::OptimizerStep&, bool) override {}
  backend::StepOutcome outcome() override { return {}; }
  backend::BatchResult evaluate(const backend::Batch&) override { return {}; }
  backend::Mark mark() override { return {marks++}; }
  std::int64_t time_ns(backend::Mark mark) override { return (std::int64_t{2} << mark.value) - 1; }
  void synchronize(const Deadline&) override {}
  backend::MemoryUse memory() const override { return {}; }

  std::int64_t marks = 0;

 private:
  std::vector<backend::Range> buckets_{{0, 1}, {1, 1}};
};

class CountingSink final : public backend::GradientSink {
 public:
  void bucket_ready(int bucket, backend::DeviceToken) override { sum += 10 + bucket; }
  int sum = 0;
};

TEST(Stamps, TellCommunicationInBackwardFromBackward) {
  DoublingReplica replica;
  CountingSink strategy;
  Stamps stamps(replica, true, 1);
  stamps.begin(&strategy);  // 1
  stamps.micro_step({});
  stamps.input_ready();        // 3
  stamps.forward_done();       // 7
  stamps.bucket_ready(0, {});  // 15, 31
  stamps.bucket_ready(1, {});  // 63, 127
  stamps.backward_done();      // 255
  stamps.communicated();       // 511
  stamps.end();                // 1023
  measure::StepRecord record;
  stamps.resolve(record);
  EXPECT_EQ(strategy.sum, 21);
  EXPECT_EQ(stamps.count(), 10);
  EXPECT_EQ(record.begin_ns, 1);
  EXPECT_EQ(record.input_ns, 2);
  EXPECT_EQ(record.forward_ns, 4);
  EXPECT_EQ(record.communication_in_backward_ns, 16 + 64);
  EXPECT_EQ(record.backward_ns, 248 - 80);
  EXPECT_EQ(record.arrival_ns, 255);
  EXPECT_EQ(record.communicated_ns, 511);
  EXPECT_EQ(record.update_ns, 512);
  EXPECT_EQ(record.end_ns, 1023);
}

TEST(Stamps, AddUpMicroSteps) {
  DoublingReplica replica;
  CountingSink strategy;
  Stamps stamps(replica, true, 2);
  for (int repeat = 0; repeat < 2; ++repeat) {  // a step starts afresh
    replica.marks = 0;
    stamps.begin(&strategy);  // 1
    stamps.micro_step({.index = 0, .last = false});
    stamps.input_ready();    // 3
    stamps.forward_done();   // 7
    stamps.backward_done();  // 15
    stamps.micro_step({.index = 1, .first = false});
    stamps.input_ready();        // 31
    stamps.forward_done();       // 63
    stamps.bucket_ready(0, {});  // 127, 255
    stamps.backward_done();      // 511
    stamps.communicated();       // 1023
    stamps.end();                // 2047
    measure::StepRecord record;
    stamps.resolve(record);
    EXPECT_EQ(record.input_ns, 2 + 16);
    EXPECT_EQ(record.forward_ns, 4 + 32);
    EXPECT_EQ(record.communication_in_backward_ns, 128);
    EXPECT_EQ(record.backward_ns, 8 + 448 - 128);
    EXPECT_EQ(record.arrival_ns, 511);
    EXPECT_EQ(record.end_ns, 2047);
  }
}

// Starting collectives after backward is work that others wait for.
TEST(Stamps, LetARankArriveOnceItHasSentWhatWasHeldBack) {
  DoublingReplica replica;
  CountingSink strategy;
  Stamps stamps(replica, true, 1);
  stamps.set_overlap(false);
  stamps.before_communication([&] { replica.mark(); });  // time passes
  for (int repeat = 0; repeat < 2; ++repeat) {
    replica.marks = 0;
    strategy.sum = 0;
    stamps.begin(&strategy);  // 1
    stamps.micro_step({});
    stamps.input_ready();        // 3
    stamps.forward_done();       // 7
    stamps.bucket_ready(0, {});  // held
    stamps.bucket_ready(1, {});
    EXPECT_EQ(strategy.sum, 0);
    stamps.backward_done();  // 15
    stamps.send_held();      // 31 passes; 63
    EXPECT_EQ(strategy.sum, 21);
    stamps.communicated();  // 127
    stamps.end();           // 255
    measure::StepRecord record;
    stamps.resolve(record);
    EXPECT_EQ(stamps.count(), 7);
    EXPECT_EQ(record.backward_ns, 8);
    EXPECT_EQ(record.communication_in_backward_ns, 48);
    EXPECT_EQ(record.arrival_ns, 63);
    EXPECT_EQ(record.communicated_ns, 127);
    EXPECT_EQ(record.update_ns, 128);
  }
}

TEST(Stamps, PutTheUpdateBeforeACollectiveThatComesLast) {
  for (const bool overlap : {true, false}) {
    DoublingReplica replica;
    CountingSink strategy;
    Stamps stamps(replica, true, 1);
    stamps.set_synchronizes_last(true);
    stamps.set_overlap(overlap);
    stamps.before_communication([] { FAIL() << "buckets start no collective"; });
    stamps.begin(&strategy);  // 1
    stamps.micro_step({});
    stamps.input_ready();        // 3
    stamps.forward_done();       // 7
    stamps.bucket_ready(0, {});  // told, not stamped
    stamps.backward_done();      // 15
    EXPECT_EQ(strategy.sum, 10);
    stamps.updated();  // 31
    stamps.arrived();  // 63
    stamps.end();      // 127
    measure::StepRecord record;
    stamps.resolve(record);
    EXPECT_EQ(record.backward_ns, 8);
    EXPECT_EQ(record.update_ns, 16);
    EXPECT_EQ(record.communication_in_backward_ns, 32);
    EXPECT_EQ(record.arrival_ns, 63);
    EXPECT_EQ(record.communicated_ns, 127);
    measure::StepRecord alone;
    stamps.resolve(alone, false);
    EXPECT_EQ(alone.arrival_ns, 0);
    EXPECT_EQ(alone.communication_in_backward_ns, 32);
  }
}

// Of a replay nothing is heard but its kind: the marks recorded in it are passed again.
TEST(Stamps, KeepTheMarksOfARecordedMicroStep) {
  DoublingReplica replica;
  CountingSink strategy;
  Stamps stamps(replica, false, 1);
  const Stamps::Kind kind{.images = 4};
  stamps.begin(&strategy);  // 1
  stamps.micro_step(kind);
  stamps.input_ready();    // 3
  stamps.forward_done();   // 7
  stamps.backward_done();  // 15
  stamps.end();            // 31
  replica.marks = 0;
  stamps.begin(&strategy);  // 1
  stamps.micro_step(kind);
  measure::StepRecord record;
  stamps.resolve(record);
  EXPECT_EQ(stamps.count(), 5);
  EXPECT_EQ(replica.marks, 1);
  EXPECT_EQ(record.input_ns, 2);
  EXPECT_EQ(record.forward_ns, 4);
  EXPECT_EQ(record.backward_ns, 8);
  EXPECT_EQ(record.update_ns, 16);
}

TEST(Stamps, WithoutCollectivesThereIsNoArrival) {
  DoublingReplica replica;
  CountingSink strategy;
  Stamps stamps(replica, false, 1);
  stamps.begin(&strategy);  // 1
  stamps.micro_step({});
  stamps.input_ready();        // 3
  stamps.forward_done();       // 7
  stamps.bucket_ready(1, {});  // told, not stamped
  stamps.backward_done();      // 15
  stamps.communicated();
  stamps.end();  // 31
  measure::StepRecord record;
  stamps.resolve(record);
  EXPECT_EQ(strategy.sum, 11);
  EXPECT_EQ(stamps.count(), 5);
  EXPECT_EQ(record.arrival_ns, 0);
  EXPECT_EQ(record.communicated_ns, 15);
  EXPECT_EQ(record.backward_ns, 8);
  EXPECT_EQ(record.communication_in_backward_ns, 0);
  EXPECT_EQ(record.update_ns, 16);
  EXPECT_EQ(record.end_ns, 31);
}

}  // namespace
}  // namespace dtrain::train
