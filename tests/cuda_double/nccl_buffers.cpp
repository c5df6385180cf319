#include <fmt/format.h>

#include "entry.hpp"
#include "memory.hpp"
#include "nccl_group.hpp"

// Registered buffers, NCCL's own memory, and reductions that the program makes.
namespace cuda_double {
namespace {

struct Registration : Object {
  Registration(ncclComm_t by, std::size_t bytes)
      : Object("nccl registration", fmt::format("{} bytes", bytes)), communicator(by) {}
  ncclComm_t communicator;
};

ncclResult_t register_buffer(ncclComm& communicator, void* buffer, std::size_t bytes, void** handle) {
  if (handle == nullptr) return refuse(ncclInvalidArgument, "no place for the handle");
  if (require_device_memory(buffer, bytes, communicator.device, "the buffer") != cudaSuccess) {
    return refuse(ncclInvalidArgument, this_thread().refusal);
  }
  auto* made = machine().make<Registration>(&communicator, bytes);
  communicator.registrations.push_back(made);
  *handle = made;
  return ncclSuccess;
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* buffer, size_t bytes, void** handle) {
  return library_call<"ncclCommRegister", ncclResult_t>([&] {
    const ncclResult_t bad = ready(communicator);
    return bad != ncclSuccess ? bad : register_buffer(*communicator, buffer, bytes, handle);
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t communicator, void* handle) {
  return library_call<"ncclCommDeregister", ncclResult_t>(
      [&] {
        auto* registration = static_cast<Registration*>(handle);
        if (!live(communicator) || !live(registration) || registration->communicator != communicator) {
          return refuse(ncclInvalidArgument, "not registered with this communicator");
        }
        registration->alive = false;
        return ncclSuccess;
      },
      true);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t communicator) {
  return library_call<"ncclRedOpCreatePreMulSum", ncclResult_t>([&] {
    if (const ncclResult_t bad = ready(communicator)) return bad;
    if (op == nullptr || scalar == nullptr || residence != ncclScalarHostImmediate ||
        (type != ncclFloat32 && type != ncclFloat64)) {
      return refuse(ncclInvalidArgument, "the double knows factors of the host, in fp32 or fp64");
    }
    const double factor = type == ncclFloat64 ? *static_cast<double*>(scalar)
                                              : static_cast<double>(*static_cast<float*>(scalar));
    *op = static_cast<ncclRedOp_t>(ncclNumOps + communicator->reductions.size());
    communicator->reductions.push_back({ncclSum, factor});
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t communicator) {
  return library_call<"ncclRedOpDestroy", ncclResult_t>([&] {
    const bool known = live(communicator) && op >= ncclNumOps &&
                       static_cast<std::size_t>(op - ncclNumOps) < communicator->reductions.size();
    return known ? ncclSuccess : refuse(ncclInvalidArgument, "no such reduction");
  });
}

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  return library_call<"ncclMemAlloc", ncclResult_t>([&] {
    if (const ncclResult_t bad = require_gpu()) return bad;
    const cudaError_t status = allocate_device_memory(address, bytes, "device memory of nccl", true);
    return status == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, this_thread().refusal);
  });
}

ncclResult_t ncclMemFree(void* address) {
  return library_call<"ncclMemFree", ncclResult_t>(
      [&] {
        const cudaError_t status = free_device_memory(address, true);
        return status == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, this_thread().refusal);
      },
      true);
}
