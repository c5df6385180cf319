#include "model/zoo.hpp"
