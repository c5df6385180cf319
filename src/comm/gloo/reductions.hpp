#pragma once

#include <list>
#include <map>
#include <vector>

#include "comm/gloo/algorithms.hpp"

namespace dtrain::comm {

// The all-reduces of a group. Making one ready takes connections of a number that all processes must agree
// on, so what is kept is found by what all of them know: the place in registered memory, or else the size
// alone, and then data is copied to memory of that size and back.
class GlooReductions {
 public:
  GlooReductions(std::shared_ptr<gloo::Context> context, std::string algorithm)
      : context_(std::move(context)), algorithm_(std::move(algorithm)) {}

  void register_buffer(std::span<float> data) { registered_.push_back(data); }
  void run(std::span<float> data, const Deadline& deadline);
  std::string algorithm_for(std::size_t bytes) const;

 private:
  struct Key {
    std::size_t buffer = 0;  // number of the registered one + 1, or 0
    std::size_t offset = 0;
    std::size_t size = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Kept {
    std::vector<float> memory;  // for what is not registered
    std::unique_ptr<GlooReduction> reduction;
  };

  void run_piece(std::span<float> data, const Deadline& deadline);
  Key key_of(std::span<const float> data) const;
  Kept& kept(const Key& key, std::span<float> data);
  void forget_old();

  std::shared_ptr<gloo::Context> context_;
  std::string algorithm_;
  std::vector<std::span<float>> registered_;
  std::map<Key, Kept> kept_;
  std::list<Key> copied_;          // those with memory of their own, the oldest first
  std::size_t copied_floats_ = 0;  // in them
  std::uint32_t number_ = 0;
};

}  // namespace dtrain::comm
