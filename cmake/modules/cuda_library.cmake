# find_cuda_library(PREFIX folder header library soname version_macro...): a library of NVIDIA's that comes beside the
# toolkit or as a wheel of its own. Sets PREFIX_INCLUDE_DIR, PREFIX_LIBRARY, PREFIX_VERSION and makes PREFIX::library.
function(find_cuda_library prefix folder header library soname)
  set(hints ${${prefix}_ROOT} $ENV{${prefix}_ROOT})
  foreach(directory ${CUDAToolkit_INCLUDE_DIRS})
    list(APPEND hints ${directory}/.. ${directory}/../../${folder})
  endforeach()
  find_path(${prefix}_INCLUDE_DIR ${header} HINTS ${hints} PATH_SUFFIXES include)
  find_library(${prefix}_LIBRARY NAMES ${library} ${soname} NAMES_PER_DIR HINTS ${hints} ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64)
  mark_as_advanced(${prefix}_INCLUDE_DIR ${prefix}_LIBRARY)
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    return()
  endif()

  set(numbers "")
  file(STRINGS ${${prefix}_INCLUDE_DIR}/${header} lines REGEX "#define [A-Z_]+[ \t]+[0-9]+$")
  foreach(macro ${ARGN})
    if(lines MATCHES "#define ${macro}[ \t]+([0-9]+)")
      list(APPEND numbers ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN numbers "." version)
  set(${prefix}_VERSION ${version} PARENT_SCOPE)

  if(NOT TARGET ${prefix}::${library})
    add_library(${prefix}::${library} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${prefix}::${library} PROPERTIES
      IMPORTED_LOCATION "${${prefix}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${prefix}_INCLUDE_DIR}")
  endif()
endfunction()
