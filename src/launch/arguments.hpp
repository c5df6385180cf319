#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtrain::launch {

// The value of the last `--flag VALUE` or `--flag=VALUE` among `words`.
std::optional<std::string> last_value(const std::vector<std::string>& words, const std::string& flag);

// `words` with `--flag VALUE` at their end, and without the flag's earlier values.
std::vector<std::string> with_value(const std::vector<std::string>& words, const std::string& flag,
                                    const std::string& value);

}  // namespace dtrain::launch
