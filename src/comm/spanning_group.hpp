#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/compressor.hpp"
#include "comm/exchange.hpp"

namespace dtrain::comm {

struct SpanningConfig {
  std::vector<int> process_of{};  // by rank: the exchange's rank of the process that hosts it; ascending
  std::string compress = "none";
  std::uint64_t seed = 0;
  bool oversubscribed = false;
  Seconds timeout{20.0};  // for what the processes do together, from its start
  // Called with every all-reduce that all local ranks have started, on the last one's thread: for the job's
  // count of progress.
  std::function<void()> on_start{};
};

// The ranks of one process in a group that spans processes: join() takes the rank in the whole group. Buffers
// of local ranks are first summed here, then over processes, then copied back, on a thread of the group's own
// that takes collectives in their order while ranks go on.
std::unique_ptr<LocalGroup> make_spanning_group(std::unique_ptr<Exchange> exchange,
                                                const SpanningConfig& config);

// Ranks that are threads of this process, whose all-reduces are compressed all the same.
std::unique_ptr<LocalGroup> make_compressed_local_group(const LocalGroupConfig& config,
                                                        const std::string& compress, std::uint64_t seed);

}  // namespace dtrain::comm
