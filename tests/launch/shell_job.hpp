#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "launch/job.hpp"

namespace dtrain::launch {

// A job of shell scripts, with logs in a folder of its own.
class ShellJob : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "launch.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  JobConfig job(const std::vector<std::string>& scripts) const {
    JobConfig config;
    config.timeout = Seconds(0.2);
    config.grace = Seconds(0.2);
    for (const auto& script : scripts) {
      const std::string title = "worker " + std::to_string(config.processes.size());
      const ProcessSpec spec{"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, false};
      config.processes.push_back({title, spec, log(config.processes.size())});
    }
    return config;
  }

  std::filesystem::path log(std::size_t process) const {
    return folder_ / ("worker-" + std::to_string(process) + ".log");
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
};

}  // namespace dtrain::launch
