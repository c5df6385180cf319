#pragma once

#include <string>

#include "backend/backend.hpp"

namespace dtrain::backend::cuda {

// Of a whole GPU at its highest clock: multiprocessors x clock x operations a multiprocessor does in a clock,
// a multiply-add counted as two, without sparsity. Zeros for a compute capability (90 for 9.0) that is not in
// the table.
PeakFlops peak_flops(int capability, int multiprocessors, double clock_hz, const std::string& name);

// Data is moved on both edges of the memory's clock.
double memory_bandwidth(double memory_clock_hz, int bus_bits);

}  // namespace dtrain::backend::cuda
