# `cmake --install` leaves the program, the libraries with their headers, and what find_package(dtrain) reads. Headers
# of a stage lie in a folder of its name in DTRAIN_HEADERS, so that they are included as they are in the source tree.
set(DTRAIN_HEADERS include/dtrain)
set(DTRAIN_LIBRARIES lib/dtrain)  # and modules: the program looks for them there
set(DTRAIN_PACKAGE lib/cmake/dtrain)

# The library dtrain_NAME is dtrain::NAME for those who find the package, and for those who take this project in as a
# folder.
function(dtrain_install_library name)
  add_library(dtrain::${name} ALIAS dtrain_${name})
  set_target_properties(dtrain_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS dtrain_${name} EXPORT dtrain ARCHIVE DESTINATION ${DTRAIN_LIBRARIES})
endfunction()

function(dtrain_install)
  include(CMakePackageConfigHelpers)
  install(TARGETS dtrain_program RUNTIME DESTINATION bin)
  foreach(module dtrain_cuda dtrain_mpi)
    if(TARGET ${module})
      install(TARGETS ${module} LIBRARY DESTINATION ${DTRAIN_LIBRARIES})
    endif()
  endforeach()
  install(EXPORT dtrain NAMESPACE dtrain:: FILE dtrainTargets.cmake DESTINATION ${DTRAIN_PACKAGE})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/dtrainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/dtrainConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/libraries.cmake
                ${PROJECT_BINARY_DIR}/dtrainConfigVersion.cmake
          DESTINATION ${DTRAIN_PACKAGE})
endfunction()
