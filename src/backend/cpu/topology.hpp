#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dtrain::backend::cpu {

// One logical processor of every physical core that this process may run on, nearest neighbours first.
// Hardware threads of one core share its arithmetic, so a second one is no second device.
std::vector<int> usable_cores();

// Cores' worth of time that the control group's quota allows (cgroup v2 and v1); 0 = no limit.
double cpu_quota();

// Bytes that can be taken without swapping: the system's available memory, or what the control group leaves
// of its limit.
std::size_t available_memory();

// The same from given file contents, for tests. "max 100000" or "150000 100000".
double parse_cpu_max(const std::string& text);
std::size_t parse_available_memory(const std::string& meminfo);

}  // namespace dtrain::backend::cpu
