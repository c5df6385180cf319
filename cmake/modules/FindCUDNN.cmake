# Finds cuDNN 9: CUDNN::cudnn, CUDNN_INCLUDE_DIR, CUDNN_VERSION. NVIDIA ships no package configuration with it. Looks
# beside the toolkit, under CUDNN_ROOT, and in the layout of the PyPI wheels (nvidia/cudnn beside nvidia/cu13).
include(${CMAKE_CURRENT_LIST_DIR}/cuda_library.cmake)
find_cuda_library(CUDNN cudnn cudnn_version.h cudnn libcudnn.so.9 CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
