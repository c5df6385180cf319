#pragma once

#include "machine.hpp"

namespace cuda_double {

struct NcclWorld {
  void abort_all() {}
  void hang(int) {}
  void release() {}
};

}  // namespace cuda_double
