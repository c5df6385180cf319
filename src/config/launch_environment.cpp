#include "config/launch_environment.hpp"
