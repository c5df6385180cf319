#include "model/flops.hpp"
