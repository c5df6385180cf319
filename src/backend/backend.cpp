#include "backend/backend.hpp"
