#include "train/world.hpp"
