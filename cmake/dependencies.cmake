# Every library comes from the system's packages; `./dtrain` installs what is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(dnnl CONFIG REQUIRED)
find_package(CURL REQUIRED)
find_package(LibArchive REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

find_file(DTRAIN_CHART_JS NAMES chart.min.js Chart.min.js PATHS /usr/share/javascript/chart.js
          DOC "Chart.js, inlined in the HTML report" REQUIRED)

if(DTRAIN_TESTS)
  find_package(GTest REQUIRED)
endif()
if(DTRAIN_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
