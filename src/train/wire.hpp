#pragma once

#include <string>
#include <vector>

#include "measure/step_record.hpp"
#include "train/local_ranks.hpp"

namespace dtrain::train {

// What orders and answers carry.
std::string pack_records(const std::vector<std::vector<measure::StepRecord>>& ranks);
std::vector<std::vector<measure::StepRecord>> unpack_records(const std::string& bytes);

std::string pack_descriptions(const std::vector<RankDescription>& ranks);
std::vector<RankDescription> unpack_descriptions(const std::string& bytes);

// A training state without its buffers, which rank 0 hands on through the group.
std::string pack_numbers(const TrainingState& state);
TrainingState unpack_numbers(const std::string& bytes);

}  // namespace dtrain::train
