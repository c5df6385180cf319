#pragma once

#include "backend/cuda/stream.hpp"

namespace dtrain::backend::cuda {

// Waits, when it goes, for what a stream still does with memory that is about to be freed. Declared after
// everything that the work on the stream uses. Does not throw, and does not wait for ever.
class Drain {
 public:
  explicit Drain(const Stream& stream) : stream_(&stream) {}
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

 private:
  const Stream* stream_;
};

}  // namespace dtrain::backend::cuda
