# Compiled by nvcc for the module, and by the host compiler for the tests (tests/simt).
set(DTRAIN_DEVICE_SOURCES
  batch_norm.cu
  bias_gradient.cu
  cast.cu
  check_finite.cu
  compress.cu
  elementwise.cu
  load_images.cu
  running_statistics.cu
  set_step.cu
  softmax_cross_entropy.cu
  sum_into_all.cu
  take_gradients.cu
  top_k.cu
  update.cu)

# Host code beside them.
set(DTRAIN_DEVICE_HOST_SOURCES
  fill_optimizer.cpp
  reference.cpp)
