#pragma once

#include "machine.hpp"

namespace cuda_double {
struct Capture;
}

struct CUevent_st : cuda_double::Object {
  CUevent_st(int on, unsigned how) : Object("event"), device(on), flags(how) {}

  int device;
  unsigned flags;
  std::atomic<cuda_double::Moment*> last{nullptr};  // of the latest record; null before the first

  // Of a record on a captured stream; under the captures' mutex.
  std::atomic<cuda_double::Capture*> capture{nullptr};
  std::vector<std::size_t> captured_after;
};
