#include "kernels/optimizer.hpp"
