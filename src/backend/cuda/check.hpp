#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

namespace dtrain::backend::cuda {

// Turns a library's status into an error that names call, code, text and device. Environment error where the
// driver, device or memory is to blame, run error otherwise.
void check(cudaError_t status, const char* call);
void check(cudnnStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);  // ncclInProgress passes: the caller polls

// For destructors: says what failed on the log and goes on.
void check_quietly(cudaError_t status, const char* call) noexcept;
void check_quietly(cudnnStatus_t status, const char* call) noexcept;
void check_quietly(ncclResult_t status, const char* call) noexcept;

}  // namespace dtrain::backend::cuda

// The one wrapper of every CUDA, cuDNN and NCCL call.
#define DTRAIN_CUDA(call) ::dtrain::backend::cuda::check((call), #call)
#define DTRAIN_CUDA_QUIETLY(call) ::dtrain::backend::cuda::check_quietly((call), #call)
