#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/units.hpp"

namespace dtrain::datasets {

struct Download {
  std::string url;
  std::uint64_t bytes = 0;     // expected
  std::filesystem::path part;  // goes on after what is there already
  std::string advice;          // what to do when the network does not help
  Seconds stall{30.0};
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::uint64_t bytes_done)> progress;
};

struct DownloadResult {
  std::uint64_t resumed_from = 0;
  std::uint64_t bytes_received = 0;
};

// Appends to `fd`, the open `part`, until it has `bytes` bytes. A server that cannot go on from the middle is
// asked again from the start.
DownloadResult download(const Download& config, int fd);

}  // namespace dtrain::datasets
