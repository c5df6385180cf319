# What dtrain's libraries are linked with, in an order in which each finds those that it needs itself. Read when dtrain is
# built, and when a program that uses it is.
set(DTRAIN_PACKAGES Threads PkgConfig OpenMP fmt spdlog CLI11 nlohmann_json tomlplusplus dnnl Protobuf gRPC Gloo CURL
    LibArchive OpenSSL Boost)
set(DTRAIN_HWLOC HWLOC REQUIRED IMPORTED_TARGET hwloc)  # has no package of CMake's
