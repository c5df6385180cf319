# Finds NCCL 2: NCCL::nccl, NCCL_INCLUDE_DIR, NCCL_VERSION. See FindCUDNN.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/cuda_library.cmake)
find_cuda_library(NCCL nccl nccl.h nccl libnccl.so.2 NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
