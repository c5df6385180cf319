# Every library comes from the system's packages; `./dtrain` installs what is missing.
include(libraries)
foreach(package ${DTRAIN_PACKAGES})
  find_package(${package} REQUIRED)
endforeach()
pkg_check_modules(${DTRAIN_HWLOC})

find_file(DTRAIN_CHART_JS NAMES chart.min.js Chart.min.js PATHS /usr/share/javascript/chart.js
          DOC "Chart.js, inlined in the HTML report" REQUIRED)

if(DTRAIN_TESTS)
  find_package(GTest REQUIRED)
endif()
if(DTRAIN_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

# Whoever takes this project in as a folder links with them too.
if(NOT PROJECT_IS_TOP_LEVEL)
  get_directory_property(imported IMPORTED_TARGETS)
  set_target_properties(${imported} PROPERTIES IMPORTED_GLOBAL TRUE)
endif()
