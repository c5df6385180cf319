#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comm/exchange.hpp"

namespace dtrain::comm {

struct LocalGroupConfig;
class LocalGroup;
class PostOffice;

// Exchanges between threads of this process, over a communicator in shared memory: each rank is what a
// process is elsewhere.
class LocalExchanges : public std::enable_shared_from_this<LocalExchanges> {
 public:
  explicit LocalExchanges(bool oversubscribed) : oversubscribed_(oversubscribed) {}
  // Once for each rank of a group of this name, from any thread; waits for nobody.
  std::unique_ptr<Exchange> join(const std::string& name, int size, int rank);

 private:
  struct Forming {
    std::unique_ptr<LocalGroup> group;
    std::shared_ptr<PostOffice> messages;
    int joined = 0;
  };

  const bool oversubscribed_;
  std::mutex mutex_;
  std::map<std::string, Forming> groups_;
};

}  // namespace dtrain::comm
