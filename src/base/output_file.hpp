#pragma once

#include <filesystem>
#include <string_view>

namespace dtrain {

// Fails (environment error) unless files can be made in `directory`; makes it where it is missing. Called
// before any work, so that hours of it are not lost to an unwritable path.
void require_writable_directory(const std::filesystem::path& directory);

// Replaces `path` by `content` in one step: a temporary beside it, flushed, then renamed. A reader sees the
// old or the new file, never half of one. Environment error when it cannot.
void write_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace dtrain
