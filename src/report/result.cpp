#include "report/result.hpp"
