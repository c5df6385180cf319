#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace dtrain::datasets {

// Writes the CIFAR-10 files of a tar archive, and nothing else that it may hold, into `directory`. Only the
// last part of a member's name is used, so no member can leave the folder. Data error when the archive is
// damaged or lacks one of the files; environment error when one cannot be written.
void unpack_cifar10(const std::filesystem::path& archive, const std::filesystem::path& directory,
                    const std::function<void(std::uint64_t bytes_done)>& progress = {});

}  // namespace dtrain::datasets
