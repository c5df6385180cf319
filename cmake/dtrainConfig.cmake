# find_package(dtrain), then target_link_libraries(mine PRIVATE dtrain::dtrain): docs/extending.md
include(CMakeFindDependencyMacro)
include(${CMAKE_CURRENT_LIST_DIR}/libraries.cmake)
foreach(package ${DTRAIN_PACKAGES})
  find_dependency(${package})
endforeach()
pkg_check_modules(${DTRAIN_HWLOC})
include(${CMAKE_CURRENT_LIST_DIR}/dtrainTargets.cmake)
