#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "launch/file_descriptor.hpp"

namespace dtrain::launch {

// One process's lines, each with the seconds since the job was started, so that several logs can be read
// side by side.
class LogFile {
 public:
  // Environment error when it cannot be written. It is emptied, unless `again` says why it goes on.
  LogFile(const std::filesystem::path& path, const std::string& again, TimePoint start);

  void write(std::string_view line);  // a disk that is full loses lines, and ends nothing

 private:
  FileDescriptor file_;
  TimePoint start_;
};

}  // namespace dtrain::launch
