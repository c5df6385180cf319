#pragma once

// Compiles a function several times and lets the loader pick the best one for the processor it finds.
// Sanitized builds do without: their run time is not set up yet when the loader asks.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DTRAIN_SANITIZED)
#define DTRAIN_DISPATCH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DTRAIN_DISPATCH
#endif
