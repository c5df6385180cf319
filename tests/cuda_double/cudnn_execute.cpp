#include <fmt/format.h>

#include "capture.hpp"
#include "cudnn_handle.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

void require_machine() {
  if (!machine().setup.driver || machine().setup.devices == 0) {
    throw Refusal{CUDNN_STATUS_NOT_INITIALIZED, "there is no driver or no device"};
  }
  if (machine().fault(this_thread().device) != cudaSuccess) {
    throw Refusal{CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                  "the device is spoiled by an earlier fault"};
  }
}

// Of the runtime's statuses, as cuDNN reports them.
void require(cudaError_t status) {
  if (status == cudaSuccess) return;
  throw Refusal{CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                fmt::format("{} ({})", cudaGetErrorName(status), this_thread().refusal)};
}

void require_device_tensor(void* address, const TensorSpec& tensor, int device) {
  const cudaError_t lies =
      require_device_memory(address, tensor.bytes_spanned(), device, shape_of(tensor).c_str());
  if (lies != cudaSuccess) throw Refusal{CUDNN_STATUS_BAD_PARAM, this_thread().refusal};
  if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(tensor.alignment) == 0) return;
  throw Refusal{CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                fmt::format("{} is not aligned to {} bytes", shape_of(tensor), tensor.alignment)};
}

Frame bind(const Program& program, const Content& pack, int device) {
  Frame frame;
  const auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const auto tensor = program.tensors.find(uids[i]);
    if (tensor == program.tensors.end() || tensor->second.is_virtual) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("tensor {} is bound, and not of the plan", uids[i])};
    }
    if (tensor->second.by_value) {
      if (region_of(pointers[i], sizeof(float)).place == Place::device) {
        throw Refusal{CUDNN_STATUS_BAD_PARAM, shape_of(tensor->second) + " by value lies in device memory"};
      }
      frame.scalars[uids[i]] = *static_cast<const float*>(pointers[i]);
    } else {
      require_device_tensor(pointers[i], tensor->second, device);
      frame.memory[uids[i]] = pointers[i];
    }
  }
  for (const auto& [uid, tensor] : program.tensors) {
    const bool bound = tensor.by_value ? frame.scalars.contains(uid) : frame.memory.contains(uid);
    if (!bound && !tensor.is_virtual) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, shape_of(tensor) + " is not bound"};
    }
  }
  return frame;
}

bool uses_tensor_cores(const Content& plan) {
  const auto notes = plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                         .descriptor(CUDNN_ATTR_ENGINECFG_ENGINE)
                         .values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  return std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
}

const Content& final_content(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
  const DescriptorHandle& handle = handle_of(descriptor, name_of(type));
  if (handle.content->type != type) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                  fmt::format("a {} in place of a {}", name_of(handle.content->type), name_of(type))};
  }
  if (!handle.content->final) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                  fmt::format("the {} is not finalized", name_of(type))};
  }
  return *handle.content;
}

void enqueue(cudnnHandle_t raw, cudnnBackendDescriptor_t plan_handle, cudnnBackendDescriptor_t pack_handle) {
  const cudnnContext& handle = cudnn_handle_of(raw);
  const Content& plan = final_content(plan_handle, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const Content& pack = final_content(pack_handle, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  require(machine().fault(handle.device));
  if (!plan.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM, "a plan for a described device is not executed"};
  }
  const cudnnContext& planned_for =
      cudnn_handle_of(plan.value<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
  if (planned_for.device != handle.device) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("a plan made on device {} is executed on device {}",
                                                      planned_for.device, handle.device)};
  }
  Frame frame = bind(*plan.program, pack, handle.device);
  frame.tensor_cores = uses_tensor_cores(plan);
  const auto workspace_bytes =
      static_cast<std::size_t>(plan.value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  void* workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (workspace_bytes > 0 &&
      require_device_memory(workspace, workspace_bytes, handle.device, "the workspace") != cudaSuccess) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM, this_thread().refusal};
  }
  CUstream_st* stream = nullptr;
  require(resolve(handle.stream, &stream));
  // Runs on a copy, for a graph runs it again. The workspace is written, so that sharing it is a data race.
  const auto run = [frame, workspace, workspace_bytes, program = plan.program] {
    if (workspace_bytes > 0) fill_with_garbage(workspace, workspace_bytes);
    Frame own = frame;
    for (const Step& step : program->steps) step.run(own);
  };
  const std::int64_t result = plan.program->outputs.front();
  require(submit(*stream, {.kind = kind<"cudnn">(),
                           .run = run,
                           .target = frame.memory.at(result),
                           .bytes = plan.program->tensors.at(result).bytes_spanned()}));
}

}  // namespace

cudnnContext& cudnn_handle_of(cudnnHandle_t handle) {
  if (live(handle)) return *handle;
  throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no live cuDNN handle"};
}

}  // namespace cuda_double

using namespace cuda_double;

size_t cudnnGetVersion() { return CUDNN_VERSION; }

size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return cudnn_call<"cudnnCreate">([&] {
    require_machine();
    if (handle == nullptr) throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the handle"};
    require(refuse_unsafe_call("cudnnCreate"));
    *handle = machine().make<cudnnContext>(this_thread().device);
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return cudnn_call<"cudnnDestroy">([&] { cudnn_handle_of(handle).alive = false; }, true);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn_call<"cudnnSetStream">([&] {
    cudnnContext& context = cudnn_handle_of(handle);
    if (stream != nullptr) {
      CUstream_st* on = nullptr;
      require(resolve(stream, &on));
      if (on->device != context.device) {
        throw Refusal{
            CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
            fmt::format("a stream of device {} for a handle of device {}", on->device, context.device)};
      }
    }
    context.stream = stream;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return cudnn_call<"cudnnGetStream">([&] {
    if (stream == nullptr) throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no result"};
    *stream = cudnn_handle_of(handle).stream;
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return cudnn_call<"cudnnBackendExecute">([&] { enqueue(handle, plan, pack); });
}
