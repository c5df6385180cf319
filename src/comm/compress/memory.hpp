#pragma once

#include <map>
#include <span>
#include <utility>

namespace dtrain::comm {

// What a compressor keeps for each buffer it is given, told apart by address and size.
template <class State>
class Memory {
 public:
  // The buffer's own, made by `make()` when it is seen for the first time.
  template <class Make>
  State& of(std::span<const float> buffer, const Make& make) {
    const Key key{buffer.data(), buffer.size()};
    const auto found = states_.find(key);
    return found != states_.end() ? found->second : states_.emplace(key, make()).first->second;
  }
  std::size_t size() const { return states_.size(); }

 private:
  using Key = std::pair<const float*, std::size_t>;
  std::map<Key, State> states_;
};

}  // namespace dtrain::comm
