# Writes build_info.cpp: version, commit, compiler and library versions, as the result file records them.
find_package(Git QUIET)
set(DTRAIN_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND commit)
    set(DTRAIN_COMMIT ${commit})
  endif()
endif()
set(DTRAIN_COMPILER "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/build_info.cpp.in ${PROJECT_BINARY_DIR}/build_info.cpp @ONLY)
