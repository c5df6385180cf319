#pragma once

namespace dtrain::measure {

// The machine's own speed: a fixed piece of work (some 5 ms on a 3 GHz core) on the calling thread, a chain
// of multiply-adds in registers and a small array in the first cache. Independent of the program that is
// measured, so that a change of the machine's speed is told from a change of the program's. Returns seconds.
double time_calibration_kernel();

// The fastest of a few repeats: an interruption makes a repeat slower, nothing makes it faster.
double calibrate(int repeats = 3);

// Seconds that one time stamp costs.
double time_stamp();

}  // namespace dtrain::measure
