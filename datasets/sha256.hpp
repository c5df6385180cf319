#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace dtrain::datasets {

// Of a whole file, in lower-case hexadecimal. `progress` is told how many bytes are done and may throw.
std::string sha256_of_file(const std::filesystem::path& path,
                           const std::function<void(std::uint64_t bytes_done)>& progress = {});

}  // namespace dtrain::datasets
