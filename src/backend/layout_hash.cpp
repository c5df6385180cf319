#include "backend/layout_hash.hpp"

#include "base/hash.hpp"

namespace dtrain::backend {

namespace {

constexpr std::size_t exact_in_float = 16'777'213;

// Weights lie in a device's memory, and are all in one order.
void add_slots(Hash& hash, const Replica& replica) {
  std::vector<std::uint64_t> places;
  for (const Slot& place : replica.slots()) {
    places.insert(places.end(),
                  {static_cast<std::uint64_t>(place.parameter), place.range.offset, place.range.size});
  }
  hash.add(std::span<const std::uint64_t>(places));
}

void add_order(Hash& hash, Replica& replica, std::size_t parameter_count) {
  std::vector<float> numbered(parameter_count);
  for (std::size_t i = 0; i < numbered.size(); ++i) numbered[i] = static_cast<float>(i % exact_in_float);
  std::vector<float> kept(parameter_count);
  replica.export_weights(kept);
  replica.import_weights(numbered);
  hash.add(std::span<const float>(replica.weights()));
  replica.import_weights(kept);
}

}  // namespace

std::uint64_t layout_hash(Replica& replica, std::size_t parameter_count) {
  Hash hash;
  if (replica.stream().device >= 0) {
    add_slots(hash, replica);
  } else {
    add_order(hash, replica, parameter_count);
  }
  return hash.value();
}

}  // namespace dtrain::backend
