# The communicators of GPUs, for the module and for the tests that link CUDA's double.
set(DTRAIN_CUDA_COMM_SOURCES)
foreach(file nccl/communicator nccl/endpoint nccl/group nccl/handle nccl/retirement nccl/roster)
  list(APPEND DTRAIN_CUDA_COMM_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
