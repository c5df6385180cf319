# MPI, where there is one: the module libdtrain_mpi.so can be built. Without it the build goes on and says so.
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  message(STATUS "MPI module: built with MPI ${MPI_CXX_VERSION}")
else()
  message(STATUS "MPI module: not built, --comm mpi cannot be used (install libopenmpi-dev and openmpi-bin)")
endif()
