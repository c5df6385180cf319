#pragma once

namespace dtrain::kernels {

// Single-precision operations a second that one core reaches with independent multiply-adds in registers (two
// operations each), best of a few short runs: the compute roof that shares of peak refer to. Takes a few
// milliseconds.
double measure_peak_flops();

// Bytes a second that one core copies within memory larger than its caches (read plus write counted once, as
// memcpy's size). Takes tens of milliseconds.
double measure_copy_bandwidth();

// The widest instruction set that the host kernels use here: "avx512", "avx2", "baseline".
const char* instruction_set();

}  // namespace dtrain::kernels
