// The GPUs that the double pretends, as the environment describes them.
#include <cstdlib>
#include <string>

#include "cuda_double/double.hpp"

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// DOUBLE_FAIL=ncclAllReduce:3 makes the third such call fail.
void plan_failure(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return;
  const std::string call = text.substr(0, colon);
  const int nth = std::atoi(text.c_str() + colon + 1);
  if (call.starts_with("nccl")) {
    cuda_double::fail(call, nth, ncclInternalError);
  } else if (call.starts_with("cudnn")) {
    cuda_double::fail(call, nth, CUDNN_STATUS_EXECUTION_FAILED);
  } else {
    cuda_double::fail(call, nth, cudaErrorLaunchFailure);
  }
}

struct Machine {
  Machine() {
    const int capability = number("DOUBLE_CAPABILITY", 90);
    cuda_double::reset({.devices = number("DOUBLE_GPUS", 2),
                        .driver = number("DOUBLE_DRIVER", 1) != 0,
                        .compute_major = capability / 10,
                        .compute_minor = capability % 10});
    if (const char* failure = std::getenv("DOUBLE_FAIL")) plan_failure(failure);
    if (const int rank = number("DOUBLE_HANG_RANK", -1); rank >= 0) cuda_double::hang_nccl_rank(rank);
  }
};

const Machine machine;

}  // namespace
