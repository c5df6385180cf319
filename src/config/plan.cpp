#include "config/plan.hpp"
