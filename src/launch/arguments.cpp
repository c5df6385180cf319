#include "launch/arguments.hpp"

namespace dtrain::launch {

std::optional<std::string> last_value(const std::vector<std::string>& words, const std::string& flag) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) value = words[++i];
    if (words[i].starts_with(flag + "=")) value = words[i].substr(flag.size() + 1);
  }
  return value;
}

std::vector<std::string> with_value(const std::vector<std::string>& words, const std::string& flag,
                                    const std::string& value) {
  std::vector<std::string> changed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag) {
      ++i;
    } else if (!words[i].starts_with(flag + "=")) {
      changed.push_back(words[i]);
    }
  }
  changed.push_back(flag);
  changed.push_back(value);
  return changed;
}

}  // namespace dtrain::launch
