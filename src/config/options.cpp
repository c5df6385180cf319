#include "config/options.hpp"
