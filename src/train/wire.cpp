#include "train/wire.hpp"

#include "base/bytes.hpp"

namespace dtrain::train {

std::string pack_records(const std::vector<std::vector<measure::StepRecord>>& ranks) {
  ByteWriter bytes;
  bytes.put(ranks.size());
  for (const auto& records : ranks) bytes.put(records);
  return bytes.bytes();
}

std::vector<std::vector<measure::StepRecord>> unpack_records(const std::string& bytes) {
  ByteReader reader(bytes, "the records of a worker");
  std::vector<std::vector<measure::StepRecord>> ranks;
  const auto count = reader.get<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(reader.get_all<measure::StepRecord>());
  return ranks;
}

std::string pack_descriptions(const std::vector<RankDescription>& ranks) {
  ByteWriter bytes;
  bytes.put(ranks.size());
  for (const auto& rank : ranks) bytes.put(rank.memory).put(rank.weights_hash).put(rank.devices_agree);
  return bytes.bytes();
}

std::vector<RankDescription> unpack_descriptions(const std::string& bytes) {
  ByteReader reader(bytes, "the description of a worker");
  std::vector<RankDescription> ranks;
  const auto count = reader.get<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) {
    RankDescription rank;
    rank.memory = reader.get<backend::MemoryUse>();
    rank.weights_hash = reader.get<std::string>();
    rank.devices_agree = reader.get<bool>();
    ranks.push_back(rank);
  }
  return ranks;
}

std::string pack_numbers(const TrainingState& state) {
  ByteWriter bytes;
  bytes.put(state.step).put(state.updates).put(state.loss_scale).put(state.good_steps);
  return bytes.put(state.statistics).bytes();
}

TrainingState unpack_numbers(const std::string& bytes) {
  ByteReader reader(bytes, "the numbers of a training state");
  TrainingState state;
  state.step = reader.get<std::int64_t>();
  state.updates = reader.get<std::int64_t>();
  state.loss_scale = reader.get<double>();
  state.good_steps = reader.get<int>();
  state.statistics = reader.get_all<float>();
  return state;
}

}  // namespace dtrain::train
