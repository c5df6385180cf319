# The sources of this folder, for the module and for the tests that link cuDNN or its double.
set(DTRAIN_CUDNN_SOURCES)
foreach(file autotune descriptor graph_builder graphs linear_graphs norm_graphs plan plan_cache planner
             pool_graphs)
  list(APPEND DTRAIN_CUDNN_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file}.cpp)
endforeach()
