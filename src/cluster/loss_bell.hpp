#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "cluster/member.hpp"

namespace dtrain::cluster {

// Keeps the first loss and calls those who want to know of it, on a thread of its own. A handle must not
// outlive the bell; it may go inside the call.
class LossBell {
 public:
  LossBell();
  ~LossBell();
  LossBell(const LossBell&) = delete;
  LossBell& operator=(const LossBell&) = delete;

  void ring(const Loss& loss);  // all but the first time: nothing
  std::optional<Loss> loss() const;
  Member::Handle subscribe(std::function<void(const Loss&)> call);

 private:
  struct Call {
    std::function<void(const Loss&)> function;
    bool made = false;
  };
  void serve();
  void unsubscribe(std::list<Call>::iterator call);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Loss> loss_;
  std::list<Call> calls_;
  const Call* current_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dtrain::cluster
