# The communicators of GPUs, for the module and for the tests that link CUDA's double.
set(DTRAIN_CUDA_COMM_SOURCES)
foreach(file cuda_local/communicator cuda_local/device_group cuda_local/group cuda_local/meeting cuda_local/parts
             nccl/communicator nccl/endpoint nccl/group nccl/handle nccl/messages nccl/retirement nccl/roster)
  list(APPEND DTRAIN_CUDA_COMM_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
