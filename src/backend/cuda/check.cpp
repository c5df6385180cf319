#include "backend/cuda/check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/log.hpp"

namespace dtrain::backend::cuda {

namespace {

std::string on_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? fmt::format(" on GPU {}", device) : std::string();
}

std::string describe(cudaError_t status, const char* call) {
  return fmt::format("{}{}: {} ({}, {})", call, on_device(), cudaGetErrorString(status),
                     cudaGetErrorName(status), static_cast<int>(status));
}

std::string describe(cudnnStatus_t status, const char* call) {
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof(detail));
  return fmt::format("{}{}: {} ({}{}{})", call, on_device(), cudnnGetErrorString(status),
                     static_cast<int>(status), detail[0] != '\0' ? ", " : "", detail);
}

std::string describe(ncclResult_t status, const char* call) {
  const char* detail = ncclGetLastError(nullptr);
  const bool told = detail != nullptr && detail[0] != '\0';
  return fmt::format("{}{}: {} ({}{}{})", call, on_device(), ncclGetErrorString(status),
                     static_cast<int>(status), told ? ", " : "", told ? detail : "");
}

bool driver_is_missing(cudaError_t status) {
  return status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice ||
         status == cudaErrorStubLibrary;
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string what = describe(status, call);
  cudaGetLastError();  // what was reported is not to be found again by a later call
  if (driver_is_missing(status)) {
    throw environment_error(what,
                            "install NVIDIA's driver, or use --device cpu; `dtrain info` says what is there");
  }
  if (status == cudaErrorMemoryAllocation) {
    throw environment_error(
        what, "use a smaller --batch-size; `dtrain info` lists other processes' use of the GPU");
  }
  throw run_error(what, "a GPU that has failed once may need a reset; `dtrain info` shows its state");
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string what = describe(status, call);
  if (status == CUDNN_STATUS_NOT_INITIALIZED) {
    throw environment_error(what, "cuDNN needs a driver and libraries that fit together; see `dtrain info`");
  }
  throw run_error(what,
                  "CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr in the environment makes cuDNN say more");
}

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw run_error(describe(status, call), "NCCL_DEBUG=WARN in the environment makes NCCL say more");
}

void check_quietly(cudaError_t status, const char* call) noexcept {
  if (status != cudaSuccess) log_warning(describe(status, call));
}

void check_quietly(cudnnStatus_t status, const char* call) noexcept {
  if (status != CUDNN_STATUS_SUCCESS) log_warning(describe(status, call));
}

void check_quietly(ncclResult_t status, const char* call) noexcept {
  if (status != ncclSuccess && status != ncclInProgress) log_warning(describe(status, call));
}

}  // namespace dtrain::backend::cuda
