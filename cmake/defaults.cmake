# Language level, warnings, sanitizers and the compiler cache, the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_PCH_WARN_INVALID OFF)

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
elseif(NOT CMAKE_BUILD_TYPE)
  message(STATUS "dtrain: CMAKE_BUILD_TYPE is not set, so that it is not optimised: measure nothing with it")
endif()

# A project that takes this one in as a folder wants the library alone.
option(DTRAIN_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(DTRAIN_BENCHMARKS "Build the Google Benchmark programs" ${PROJECT_IS_TOP_LEVEL})
option(DTRAIN_STRICT "Take warnings as errors" ${PROJECT_IS_TOP_LEVEL})
set(DTRAIN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE)
  # Precompiled headers defeat the cache unless it may ignore the time they were made. Relative to the base folder, so
  # that another checkout finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${DTRAIN_CCACHE})
endif()

# Applies the common settings to one target.
function(dtrain_defaults target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                         $<$<BOOL:${DTRAIN_STRICT}>:-Werror>)
  if(DTRAIN_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  if(DTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${DTRAIN_SANITIZE})
    target_compile_definitions(${target} PRIVATE DTRAIN_SANITIZED)
  endif()
endfunction()
