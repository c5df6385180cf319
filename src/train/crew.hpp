#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain::train {

// A fixed number of threads that sleep until there is something to do. One thread calls run().
class Crew {
 public:
  using Job = std::function<void(int)>;

  explicit Crew(int size);  // environment error when the system gives no more threads
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls job(index) on every thread; returns when all have come back. The job must not throw.
  void run(const Job& job);

 private:
  void live(int index);
  void dismiss();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const Job* job_ = nullptr;
  std::uint64_t round_ = 0;  // counts jobs, so that no thread takes one twice
  int at_work_ = 0;
  bool dismissed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::train
