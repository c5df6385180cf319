#include "measure/protocol.hpp"
