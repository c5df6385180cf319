// The GPUs that the double pretends, as the environment describes them.
#include <cstdlib>

#include "cuda_double/double.hpp"

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

struct Machine {
  Machine() {
    const int capability = number("DOUBLE_CAPABILITY", 90);
    cuda_double::reset({.devices = number("DOUBLE_GPUS", 2),
                        .driver = number("DOUBLE_DRIVER", 1) != 0,
                        .compute_major = capability / 10,
                        .compute_minor = capability % 10});
  }
};

const Machine machine;

}  // namespace
