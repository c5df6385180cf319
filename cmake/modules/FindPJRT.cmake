# Finds the C interface of PJRT plugins: PJRT::pjrt, PJRT_INCLUDE_DIR. Where the folder it was fetched into has one too,
# PJRT_CPU_PLUGIN is a plugin for the processor, which tests run on. DTRAIN_PJRT names the folder (cmake/fetch_pjrt.sh).
if(DEFINED ENV{DTRAIN_PJRT})
  set(pjrt_folder $ENV{DTRAIN_PJRT})
else()
  set(pjrt_folder ${PROJECT_SOURCE_DIR}/build/pjrt)
endif()
set(DTRAIN_PJRT ${pjrt_folder} CACHE PATH "Where the header of PJRT was fetched to")

find_path(PJRT_INCLUDE_DIR pjrt_c_api.h
  HINTS ${DTRAIN_PJRT} PATH_SUFFIXES xla_plugins/xla_cpu_pjrt/include include)
find_file(PJRT_CPU_PLUGIN xla_cpu_pjrt.so
  HINTS ${DTRAIN_PJRT} PATH_SUFFIXES xla_plugins/xla_cpu_pjrt lib)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PJRT REQUIRED_VARS PJRT_INCLUDE_DIR)
if(PJRT_FOUND AND NOT TARGET PJRT::pjrt)
  add_library(PJRT::pjrt INTERFACE IMPORTED)
  target_include_directories(PJRT::pjrt SYSTEM INTERFACE ${PJRT_INCLUDE_DIR})
endif()
