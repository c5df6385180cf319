#include <fmt/format.h>

#include "entry.hpp"
#include "machine.hpp"

namespace cuda_double {
namespace {

struct Text {
  int status;
  const char* name;
  const char* meaning;
};

constexpr Text cuda_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

constexpr Text cudnn_texts[] = {
    {CUDNN_STATUS_SUCCESS, "CUDNN_STATUS_SUCCESS", ""},
    {CUDNN_STATUS_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED", ""},
    {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM", ""},
    {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER", ""},
    {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER", ""},
    {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED", ""},
    {CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND", ""},
    {CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT", ""},
    {CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH", ""},
    {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH", ""},
    {CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES", ""},
    {CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE", ""},
    {CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE", ""},
    {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED", ""},
    {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN", ""},
    {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "CUDNN_STATUS_NOT_SUPPORTED_SHAPE", ""},
    {CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE", ""},
    {CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT", ""},
    {CUDNN_STATUS_INTERNAL_ERROR, "CUDNN_STATUS_INTERNAL_ERROR", ""},
    {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
     ""},
    {CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
     "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", ""},
    {CUDNN_STATUS_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED", ""},
    {CUDNN_STATUS_EXECUTION_FAILED_CUDART, "CUDNN_STATUS_EXECUTION_FAILED_CUDART", ""},
};

constexpr Text nccl_texts[] = {
    {ncclSuccess, "ncclSuccess", "no error"},
    {ncclUnhandledCudaError, "ncclUnhandledCudaError", "unhandled cuda error"},
    {ncclSystemError, "ncclSystemError", "unhandled system error"},
    {ncclInternalError, "ncclInternalError", "internal error"},
    {ncclInvalidArgument, "ncclInvalidArgument", "invalid argument"},
    {ncclInvalidUsage, "ncclInvalidUsage", "invalid usage"},
    {ncclRemoteError, "ncclRemoteError", "remote process exited or there was a network error"},
    {ncclInProgress, "ncclInProgress", "NCCL operation in progress"},
};

template <std::size_t size>
const Text* find(const Text (&texts)[size], int status) {
  const auto* found =
      std::find_if(std::begin(texts), std::end(texts), [&](const Text& t) { return t.status == status; });
  return found == std::end(texts) ? nullptr : found;
}

// With the reason, where the last refusal on this thread was of this status. Lives until the next call.
const char* with_reason(std::string text, int status) {
  thread_local std::string answer;
  answer = std::move(text);
  const ThreadState& thread = this_thread();
  if (status != 0 && thread.refusal_status == status && !thread.refusal.empty()) {
    answer += fmt::format(" ({}: {})", thread.refusal_site, thread.refusal);
  }
  return answer.c_str();
}

}  // namespace
}  // namespace cuda_double

using namespace cuda_double;

const char* cudaGetErrorName(cudaError_t error) {
  const Text* text = find(cuda_texts, error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const Text* text = find(cuda_texts, error);
  return with_reason(text == nullptr ? "unrecognized error code" : text->meaning, error);
}

cudaError_t cudaGetLastError() {
  entry<"cudaGetLastError">().enter();
  ThreadState& thread = this_thread();
  const cudaError_t last = std::exchange(thread.last_error, cudaSuccess);
  if (machine().setup.devices == 0 || !machine().setup.driver) return last;
  const cudaError_t spoiled = machine().fault(thread.device);
  return spoiled != cudaSuccess ? spoiled : last;
}

cudaError_t cudaPeekAtLastError() {
  entry<"cudaPeekAtLastError">().enter();
  return this_thread().last_error;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  const Text* text = find(cudnn_texts, status);
  return text == nullptr ? "CUDNN_STATUS_UNKNOWN" : text->name;
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (message == nullptr || size == 0) return;
  const std::string text = this_thread().refusal;
  const std::size_t length = text.copy(message, size - 1);
  message[length] = '\0';
}

const char* ncclGetErrorString(ncclResult_t status) {
  const Text* text = find(nccl_texts, status);
  return text == nullptr ? "unknown result code" : text->meaning;
}
