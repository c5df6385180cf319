#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/module_table.hpp"

// The CUDA part of the program is a shared library of its own, so that one program starts with and without
// NVIDIA's libraries. It is loaded when it is first needed.
namespace dtrain::backend {

struct CudaModule {
  std::filesystem::path file;          // that was loaded, or would have been
  const ModuleTable* table = nullptr;  // null: `problem` says why
  std::string problem;                 // a sentence without its full stop
  std::string advice;
};

// Loads the first of these files that is there. What is loaded stays until the process ends.
CudaModule load_cuda_module(const std::vector<std::filesystem::path>& files);

// The one that belongs to this program: beside the executable, or in ../lib/dtrain/ of an installed tree.
const CudaModule& cuda_module();

// The same; environment error where it cannot be used.
const ModuleTable& require_cuda_module();

// Loads the module when one of its functions is called. Environment error then where it cannot be used.
std::shared_ptr<const Backend> make_cuda_module_backend();

}  // namespace dtrain::backend
