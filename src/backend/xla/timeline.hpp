#pragma once

#include <array>
#include <memory>

#include "backend/replica.hpp"
#include "backend/xla/completion.hpp"

namespace dtrain::backend::xla {

// Points in what devices were given to do. Of the marks of some steps back the time is not kept.
class Timeline {
 public:
  // After the work of `before`; null: there was none.
  Mark mark(std::shared_ptr<Completion> before) {
    points_[static_cast<std::size_t>(marks_) % points_.size()] = {std::move(before), now_ns()};
    return {marks_++};
  }
  // When the devices had done what came before, but no sooner than the mark was made. They must have.
  std::int64_t time_ns(Mark mark) const {
    const Point& point = points_[static_cast<std::size_t>(mark.value) % points_.size()];
    return point.before ? std::max(point.made_ns, point.before->done_ns()) : point.made_ns;
  }

 private:
  struct Point {
    std::shared_ptr<Completion> before;
    std::int64_t made_ns = 0;
  };
  std::array<Point, 1024> points_;
  std::int64_t marks_ = 0;
};

}  // namespace dtrain::backend::xla
