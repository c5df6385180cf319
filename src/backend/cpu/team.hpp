#pragma once

#include <functional>
#include <vector>

namespace dtrain::backend::cpu {

// The cores of one replica: the calling thread and, beyond one, its OpenMP team, each pinned to one of
// `cores` (not pinned where that is empty). oneDNN's primitives run on the same team.
class Team {
 public:
  Team(int threads, const std::vector<int>& cores);

  int threads() const { return threads_; }

  // Calls work(begin, end) for disjoint parts of [0, count) that begin at multiples of `grain`.
  template <class Work>
  void split(std::size_t count, std::size_t grain, const Work& work) const {
    if (threads_ == 1 || count <= grain) {
      work(std::size_t{0}, count);
    } else {
      run_parts(count, grain, work);
    }
  }

 private:
  void run_parts(std::size_t count, std::size_t grain,
                 const std::function<void(std::size_t, std::size_t)>& work) const;

  int threads_;
};

}  // namespace dtrain::backend::cpu
