#pragma once

#include "backend/cpu/op.hpp"
#include "backend/replica.hpp"

namespace dtrain::backend::cpu {

// What a replica's collective layers work with, once it is connected.
class CollectiveLink {
 public:
  // All ranks together. Throws an environment error where their processors differ so that values would lie in
  // another order.
  void connect(Collective& collective);
  Collective& get() const;  // std::logic_error before connect

 private:
  Collective* collective_ = nullptr;
};

std::unique_ptr<Op> make_gather_channels(const Builder& builder, const Place& place);
// Its output's values are its input's, in the same place.
std::unique_ptr<Op> make_sum_gradients(const Builder& builder, const Place& place);

}  // namespace dtrain::backend::cpu
