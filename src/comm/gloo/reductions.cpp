#include "comm/gloo/reductions.hpp"

#include <algorithm>
#include <functional>

namespace dtrain::comm {

namespace {

constexpr std::size_t largest = std::size_t{1} << 28U;      // floats: Gloo counts bytes in 31 bits
constexpr std::size_t most_copied = std::size_t{1} << 24U;  // floats kept for buffers nobody registered

}  // namespace

std::string GlooReductions::algorithm_for(std::size_t bytes) const {
  return algorithm_ == "auto" ? choose_gloo_algorithm(bytes, context_->size) : algorithm_;
}

void GlooReductions::run(std::span<float> data, const Deadline& deadline) {
  for (; data.size() > largest; data = data.subspan(largest)) run_piece(data.first(largest), deadline);
  run_piece(data, deadline);
}

void GlooReductions::run_piece(std::span<float> data, const Deadline& deadline) {
  const Key key = key_of(data);
  Kept& found = kept(key, data);
  if (key.buffer == 0) std::ranges::copy(data, found.memory.begin());
  found.reduction->run(deadline, number_++);
  if (key.buffer == 0) std::ranges::copy(found.memory, data.begin());
}

GlooReductions::Key GlooReductions::key_of(std::span<const float> data) const {
  const auto inside = [&](std::span<const float> whole) {
    const std::less_equal<const float*> no_later;
    return no_later(whole.data(), data.data()) &&
           no_later(data.data() + data.size(), whole.data() + whole.size());
  };
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    if (!inside(registered_[i])) continue;
    return {i + 1, static_cast<std::size_t>(data.data() - registered_[i].data()), data.size()};
  }
  return {0, 0, data.size()};
}

GlooReductions::Kept& GlooReductions::kept(const Key& key, std::span<float> data) {
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second;
  Kept& fresh = kept_[key];
  if (key.buffer == 0) {
    fresh.memory.resize(data.size());
    data = fresh.memory;
    copied_.push_back(key);
    copied_floats_ += data.size();
    forget_old();
  }
  const auto maker = gloo_algorithms().at(algorithm_for(data.size_bytes())).value;
  fresh.reduction = maker(context_, data);
  return fresh;
}

void GlooReductions::forget_old() {
  while (copied_floats_ > most_copied && copied_.size() > 1) {
    copied_floats_ -= copied_.front().size;
    kept_.erase(copied_.front());
    copied_.pop_front();
  }
}

}  // namespace dtrain::comm
