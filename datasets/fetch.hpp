#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/units.hpp"

namespace dtrain::datasets {

struct Archive {
  std::string url;
  std::uint64_t bytes = 0;
  std::string sha256;  // lower-case hexadecimal
};

// CIFAR-10 in its binary version, from where it was published.
Archive official_archive();

struct FetchConfig {
  std::filesystem::path directory;  // gets cifar-10-batches-bin/
  Archive archive = official_archive();
  Seconds stall{30.0};  // gives up when no byte has come for so long
  const std::atomic<bool>* stop = nullptr;
};

enum class FetchStage { download, verify, unpack };
using FetchProgress = std::function<void(FetchStage stage, std::uint64_t bytes_done, std::uint64_t bytes)>;

struct FetchResult {
  std::filesystem::path files;       // the folder to give to --data
  bool already_there = false;        // and equal to its checksums, so nothing was done
  std::uint64_t resumed_from = 0;    // bytes that an earlier, interrupted fetch had left
  std::uint64_t bytes_received = 0;  // over the network
};

// Downloads, verifies (size and SHA-256), unpacks and checks the archive. An archive placed in the directory
// by hand is used instead of the network. Until all is done nothing but `ARCHIVE.part` is left behind, from
// which the next call goes on. `progress` may throw. Environment error: no network, disk full, not writable,
// another fetch running. Data error: wrong size or checksum, damaged archive. Interrupted when `stop` became
// true.
FetchResult fetch(const FetchConfig& config, const FetchProgress& progress = {});

}  // namespace dtrain::datasets
