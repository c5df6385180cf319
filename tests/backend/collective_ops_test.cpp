// Replicas of a model's parts, each on a thread, against one of the whole.

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"
#include "make_replica.hpp"
#include "model/split.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;
using namespace dtrain::model;

// Where the threads of a group meet.
struct Meeting {
  explicit Meeting(int ranks) : barrier(ranks), spans(static_cast<std::size_t>(ranks)) {}
  std::barrier<> barrier;
  std::vector<std::span<float>> spans;
};

class ThreadCollective final : public backend::Collective {
 public:
  ThreadCollective(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.spans.size()); }

  void all_reduce(std::span<float> data) override {
    std::vector<float> sum(data.size(), 0.0F);
    publish(data);
    for (const auto& other : meeting_.spans) {
      ASSERT_EQ(other.size(), data.size());
      for (std::size_t i = 0; i < data.size(); ++i) sum[i] += other[i];
    }
    meeting_.barrier.arrive_and_wait();
    std::ranges::copy(sum, data.begin());
    summed += data.size();
  }
  void all_gather(std::span<float> data) override {
    const std::size_t share = data.size() / meeting_.spans.size();
    EXPECT_EQ(share % 16, 0U);
    publish(data);
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      const auto span = meeting_.spans[static_cast<std::size_t>(other)];
      ASSERT_EQ(span.size(), data.size());
      const std::size_t begin = static_cast<std::size_t>(other) * share;
      std::ranges::copy(span.subspan(begin, share), data.data() + begin);
    }
    meeting_.barrier.arrive_and_wait();
    gathered += data.size();
  }

  std::size_t summed = 0;  // floats
  std::size_t gathered = 0;

 private:
  void publish(std::span<float> data) {
    meeting_.spans[static_cast<std::size_t>(rank_)] = data;
    meeting_.barrier.arrive_and_wait();
  }

  Meeting& meeting_;
  int rank_;
};

class NoSink final : public backend::GradientSink {
 public:
  void bucket_ready(int, backend::DeviceToken) override {}
};

struct Images {
  Images(const Model& model, int count) : labels(static_cast<std::size_t>(count)) {
    Random random(5);
    pixels.resize(static_cast<std::size_t>(count) * model.image.elements());
    for (float& pixel : pixels) pixel = static_cast<float>(random.normal());
    for (auto& label : labels) {
      label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(model.classes)));
    }
    elements = model.image.elements();
  }
  backend::Batch part(int first, int count) const {
    return {.images = pixels.data() + static_cast<std::size_t>(first) * elements,
            .labels = labels.data() + first,
            .count = count};
  }
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  std::size_t elements = 0;
};

struct Outcome {
  backend::BatchResult trained;
  backend::BatchResult evaluated;
  std::vector<float> gradients;  // of the replica's own parameters
  std::vector<float> statistics;
  std::size_t gathered = 0;
  std::size_t summed = 0;
};

constexpr int batch = 6;

std::unique_ptr<backend::Replica> replica_of(const Model& model,
                                             config::Precision precision = config::Precision::fp32) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = batch;
  config.precision = precision;
  config.check_buckets = true;
  return dtrain::testing::make_replica(config);
}

// Two micro-steps, of 6 and of 3 images, and an evaluation of 4.
Outcome train(const Model& model, const std::vector<float>& weights, const Images& images,
              config::Precision precision, ThreadCollective* collective) {
  const auto replica = replica_of(model, precision);
  replica->import_weights(weights);
  if (collective != nullptr) replica->connect(*collective);
  NoSink sink;
  replica->forward(0, images.part(0, batch));
  replica->backward(0, 1.0F / 9, true, false, sink);
  replica->forward(0, images.part(batch, 3));
  replica->backward(0, 1.0F / 9, false, true, sink);
  Outcome outcome;
  outcome.trained = replica->result(0);
  outcome.gradients.resize(model.parameter_count);
  replica->export_gradients(outcome.gradients);
  outcome.statistics.resize(model.statistic_count);
  replica->export_statistics(outcome.statistics);
  outcome.evaluated = replica->evaluate(images.part(2, 4));
  if (collective != nullptr) {
    outcome.gathered = collective->gathered;
    outcome.summed = collective->summed;
  }
  return outcome;
}

std::vector<Outcome> train_parts(const Model& whole, int ranks, const std::vector<float>& weights,
                                 const Images& images,
                                 config::Precision precision = config::Precision::fp32) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  Meeting meeting(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Part part = split_channels(whole, rank, ranks);
      ThreadCollective collective(meeting, rank);
      outcomes[static_cast<std::size_t>(rank)] =
          train(*part.model, take_part(weights, part.parameters, part.model->parameter_count), images,
                precision, &collective);
    });
  }
  threads.clear();
  return outcomes;
}

// Of each parameter's largest, the worst of all.
double difference(const Model& model, const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0.0;
  for (const auto& parameter : model.parameters) {
    double largest = 1e-20;
    double gap = 0.0;
    for (std::size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(want[i])));
      gap = std::max(gap, std::abs(static_cast<double>(got[i]) - want[i]));
    }
    worst = std::max(worst, gap / largest);
  }
  return worst;
}

// Channels that no vector divides, a layer that stays whole, and an Add whose inputs differ.
Model uneven() {
  return build("uneven", {3, 12, 12}, 7,
               {{"wide", Convolution{21, 3, 1, false}, {image_input}, {}, {}},
                {"wide_norm", BatchNorm{}, {0}, {}, {}},
                {"wide_relu", Relu{}, {1}, {}, {}},
                {"pool", MaxPool{2}, {2}, {}, {}},
                {"narrow", Convolution{2, 3, 1, false}, {3}, {}, {}},
                {"narrow_norm", BatchNorm{}, {4}, {}, {}},
                {"narrow_relu", Relu{}, {5}, {}, {}},
                {"back", Convolution{21, 1, 0}, {6}, {}, {}},
                {"add", Add{}, {3, 7}, {}, {}},
                {"again", Convolution{13, 3, 1}, {8}, {}, {}},
                {"again_relu", Relu{}, {9}, {}, {}},
                {"dense", Dense{11}, {10}, {}, {}},
                {"dense_relu", Relu{}, {11}, {}, {}},
                {"logits", Dense{7}, {12}, {}, {}}});
}

// The second input of the Add is whole on every rank, the first a slice.
Model mixed() {
  return build("mixed", {3, 8, 8}, 5,
               {{"narrow", Convolution{4, 3, 1}, {image_input}, {}, {}},
                {"first", Convolution{16, 3, 1}, {0}, {}, {}},
                {"second", Convolution{4, 3, 1}, {1}, {}, {}},
                {"add", Add{}, {0, 2}, {}, {}},
                {"relu", Relu{}, {3}, {}, {}},
                {"dense", Dense{5}, {4}, {}, {}}});
}

Model make_model(const std::string& name) {
  if (name == "uneven") return uneven();
  if (name == "mixed") return mixed();
  return name == "resnet9_w8" ? resnet9(8) : zoo().at(name).value();
}

class Split : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  Model whole_ = make_model(std::get<0>(GetParam()));
  int ranks_ = std::get<1>(GetParam());
  Images images_{whole_, batch + 3};
  std::vector<float> weights_ = initial_weights(whole_, 3);
};

TEST_P(Split, GivesTheWholesLossesAndGradients) {
  const Outcome want = train(whole_, weights_, images_, config::Precision::fp32, nullptr);
  const std::vector<Outcome> parts = train_parts(whole_, ranks_, weights_, images_);
  std::vector<float> gradients(whole_.parameter_count, 0.0F);
  std::vector<float> statistics(whole_.statistic_count, 0.0F);
  for (int rank = 0; rank < ranks_; ++rank) {
    const Outcome& got = parts[static_cast<std::size_t>(rank)];
    const Part part = split_channels(whole_, rank, ranks_);
    put_part(got.gradients, part.parameters, gradients);
    put_part(got.statistics, part.statistics, statistics);
    EXPECT_NEAR(got.trained.loss_sum, want.trained.loss_sum, 2e-5 * want.trained.loss_sum);
    EXPECT_NEAR(got.evaluated.loss_sum, want.evaluated.loss_sum, 2e-5 * want.evaluated.loss_sum);
    EXPECT_EQ(got.trained.correct, want.trained.correct);
    EXPECT_EQ(got.trained.count, 9);
    EXPECT_EQ(got.evaluated.count, 4);
    EXPECT_EQ(got.trained.loss_sum, parts[0].trained.loss_sum);  // to the last bit
    EXPECT_EQ(got.evaluated.loss_sum, parts[0].evaluated.loss_sum);
  }
  EXPECT_LT(difference(whole_, gradients, want.gradients), 2e-4);
  for (std::size_t i = 0; i < statistics.size(); ++i) EXPECT_NEAR(statistics[i], want.statistics[i], 1e-5);
}

// What every rank computes, it computes with the same bits.
TEST_P(Split, WholeLayersHaveTheSameGradientsOnAllRanks) {
  const std::vector<Outcome> parts = train_parts(whole_, ranks_, weights_, images_);
  const Part first = split_channels(whole_, 0, ranks_);
  for (int rank = 1; rank < ranks_; ++rank) {
    const Part part = split_channels(whole_, rank, ranks_);
    for (std::size_t p = 0; p < part.parameters.size(); ++p) {
      const Piece& piece = part.parameters[p];
      if (piece.given) continue;
      const auto& theirs = parts[static_cast<std::size_t>(rank)].gradients;
      EXPECT_EQ(std::memcmp(theirs.data() + piece.part_offset,
                            parts[0].gradients.data() + first.parameters[p].part_offset,
                            piece.size * sizeof(float)),
                0)
          << whole_.parameters[p].name;
    }
  }
}

TEST_P(Split, StaysNearTheWholeInBf16) {
  const Outcome want = train(whole_, weights_, images_, config::Precision::bf16, nullptr);
  const std::vector<Outcome> parts = train_parts(whole_, ranks_, weights_, images_, config::Precision::bf16);
  EXPECT_NEAR(parts[0].trained.loss_sum, want.trained.loss_sum, 2e-2 * want.trained.loss_sum);
}

INSTANTIATE_TEST_SUITE_P(Models, Split,
                         ::testing::Combine(::testing::Values("mlp", "cnn", "resnet9_w8", "uneven", "mixed"),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + '_' + std::to_string(std::get<1>(tested.param));
                         });

TEST(SplitTraffic, IsWhatTheShapesSay) {
  const Model whole = make_model("cnn");
  const Images images(whole, batch + 3);
  const Outcome got = train_parts(whole, 2, initial_weights(whole, 3), images)[0];
  std::size_t gathered = 32;  // which instructions the ranks have, 16 floats each
  std::size_t summed = 0;
  for (const std::size_t count : {6U, 3U, 4U}) {
    for (const Shape& shape : count_split(whole, 2).gathered) {
      gathered += (count * shape.elements() / 2 + 15) / 16 * 16 * 2;
    }
  }
  for (const Shape& shape : count_split(whole, 2).summed) summed += 9 * shape.elements();
  EXPECT_EQ(got.gathered, gathered);
  EXPECT_EQ(got.summed, summed);
}

TEST(CollectiveLayers, NeedAConnection) {
  const Model whole = make_model("mlp");
  const Part part = split_channels(whole, 0, 2);
  const auto replica = replica_of(*part.model);
  const Images images(whole, batch);
  EXPECT_THROW(replica->forward(0, images.part(0, batch)), std::logic_error);
}

// Gives every other rank's share a value that no processor has.
class StrangeCollective final : public backend::Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void all_reduce(std::span<float>) override {}
  void all_gather(std::span<float> data) override { data[data.size() / 2] = -1.0F; }
};

TEST(CollectiveLayers, RefuseRanksWithOtherInstructions) {
  const Model whole = make_model("mlp");
  const Part part = split_channels(whole, 0, 2);
  const auto replica = replica_of(*part.model);
  StrangeCollective collective;
  EXPECT_THROW(replica->connect(collective), Error);
}

}  // namespace
