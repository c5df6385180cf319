#include <string_view>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/module_table.hpp"
#include "comm/cuda_local/group.hpp"
#include "comm/nccl/group.hpp"

// The one function that the module shows.
namespace dtrain::cuda_module {

namespace {

using backend::ModuleGroupMaker;
using backend::ModuleTable;

ModuleGroupMaker find_communicator(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "nccl") return &comm::make_nccl_group;
  if (wanted == "cuda_local") return &comm::make_cuda_local_group;
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ModuleTable* dtrain_cuda_module() {
  static const ModuleTable table = {.abi = backend::module_abi,
                                    .interface_id = backend::interface_id(),
                                    .make_backend = &backend::cuda::make_cuda_backend,
                                    .find_communicator = &find_communicator,
                                    .redirect_log = &redirect_log};
  return &table;
}

}  // namespace dtrain::cuda_module
