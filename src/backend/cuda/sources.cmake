# The host code of a replica on a GPU, for the module and for the tests that link CUDA's double.
set(DTRAIN_CUDA_SOURCES)
foreach(file batch_norm_op check cuda_backend device drain flat_layout input memory nvml peak plain_ops plans program
             recorder replica replica_memory replica_step stream timeline weighted_op)
  list(APPEND DTRAIN_CUDA_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
