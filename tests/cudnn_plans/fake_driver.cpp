// A libcuda.so.1 for planning without a GPU. cuDNN compiles kernels for the device that it is told of and
// loads them to check them; this driver takes what is a device binary, and has no device for anything else.
#include <elf.h>

#include <cstring>

namespace {

using Result = int;
constexpr Result success = 0;
constexpr Result no_device = 100;
constexpr Result invalid_image = 200;
constexpr int device_code = 190;  // e_machine of a CUDA binary

char object;  // what every loaded module, kernel and function points to

Result load(void** loaded, const void* image) {
  if (image == nullptr) return invalid_image;
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != device_code)
    return invalid_image;
  *loaded = &object;
  return success;
}

Result give(void** wanted) {
  *wanted = &object;
  return success;
}

Result say(const char** text) {
  *text = "there is no device: this driver is for planning alone";
  return success;
}

Result zero(int* value) {
  *value = 0;
  return success;
}

}  // namespace

extern "C" {

Result cuLibraryLoadData(void** library, const void* image, ...) { return load(library, image); }
Result cuModuleLoadData(void** module, const void* image) { return load(module, image); }
Result cuModuleLoadDataEx(void** module, const void* image, ...) { return load(module, image); }
Result cuModuleLoadFatBinary(void** module, const void*) { return give(module); }
Result cuLibraryUnload(void*) { return success; }
Result cuModuleUnload(void*) { return success; }

Result cuLibraryGetKernel(void** kernel, void*, const char*) { return give(kernel); }
Result cuLibraryGetModule(void** module, void*) { return give(module); }
Result cuKernelGetFunction(void** function, void*) { return give(function); }
Result cuModuleGetFunction(void** function, void*, const char*) { return give(function); }

Result cuKernelSetAttribute(int, int, void*, int) { return success; }
Result cuKernelGetAttribute(int* value, int, void*, int) { return zero(value); }
Result cuFuncSetAttribute(void*, int, int) { return success; }
Result cuFuncGetAttribute(int* value, int, void*) { return zero(value); }

Result cuGetErrorString(Result, const char** text) { return say(text); }
Result cuGetErrorName(Result, const char** text) { return say(text); }
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}

#define NO_DEVICE_FOR(function) \
  Result function() { return no_device; }
NO_DEVICE_FOR(cuInit)
NO_DEVICE_FOR(cuDeviceGetCount)
NO_DEVICE_FOR(cuDeviceGet)
NO_DEVICE_FOR(cuDeviceGetAttribute)
NO_DEVICE_FOR(cuDevicePrimaryCtxRetain)
NO_DEVICE_FOR(cuDevicePrimaryCtxRelease)
NO_DEVICE_FOR(cuCtxGetCurrent)
NO_DEVICE_FOR(cuCtxGetDevice)
NO_DEVICE_FOR(cuCtxGetLimit)
NO_DEVICE_FOR(cuCtxPushCurrent)
NO_DEVICE_FOR(cuCtxPopCurrent)
NO_DEVICE_FOR(cuLaunchKernel)
NO_DEVICE_FOR(cuLaunchKernelEx)
NO_DEVICE_FOR(cuLaunchCooperativeKernel)
NO_DEVICE_FOR(cuLinkCreate)
NO_DEVICE_FOR(cuLinkCreate_v2)
NO_DEVICE_FOR(cuLinkAddData)
NO_DEVICE_FOR(cuLinkAddData_v2)
NO_DEVICE_FOR(cuLinkAddFile_v2)
NO_DEVICE_FOR(cuLinkComplete)
NO_DEVICE_FOR(cuLinkDestroy)
NO_DEVICE_FOR(cuLibraryLoadFromFile)
NO_DEVICE_FOR(cuModuleGetGlobal_v2)
NO_DEVICE_FOR(cuMemcpyDtoH_v2)
NO_DEVICE_FOR(cuStreamGetCtx)
NO_DEVICE_FOR(cuStreamSynchronize)
NO_DEVICE_FOR(cuOccupancyMaxPotentialClusterSize)
NO_DEVICE_FOR(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NO_DEVICE_FOR(cuTensorMapEncodeTiled)

}  // extern "C"
