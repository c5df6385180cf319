#include "comm/communicator.hpp"
