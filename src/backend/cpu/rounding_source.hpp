#pragma once

#include "backend/cpu/flat_memory.hpp"
#include "kernels/elementwise.hpp"

namespace dtrain::backend::cpu {

// Weights that come and go, where layers compute with a rounded copy: that one comes and goes with them.
class RoundingSource final : public WeightSource {
 public:
  RoundingSource(WeightSource& source, FlatMemory& weights, FlatMemory& rounded)
      : source_(&source), weights_(&weights), rounded_(&rounded) {}

  void need(Range range) override {
    source_->need(range);
    kernels::round_to_bf16(weights_->span().subspan(range.offset, range.size),
                           rounded_->span().subspan(range.offset, range.size));
  }

  void done(Range range) override {
    rounded_->sample();
    rounded_->release(range);
    source_->done(range);
  }

 private:
  WeightSource* source_;
  FlatMemory* weights_;
  FlatMemory* rounded_;
};

}  // namespace dtrain::backend::cpu
