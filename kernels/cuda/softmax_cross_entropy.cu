#include "kernels/cuda/softmax_cross_entropy.hpp"

#include <climits>
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/meeting.cuh"
#include "kernels/cuda/pack.cuh"

namespace dtrain::kernels::cuda {

namespace {

constexpr unsigned warps = block_size / warp_size;

// As many neighbouring lanes as share a row: a power of two.
unsigned lanes_for(int classes) {
  unsigned lanes = 1;
  while (lanes < warp_size && lanes < static_cast<unsigned>(classes)) lanes *= 2;
  return lanes;
}

struct Largest {
  float value;
  int index;  // the first of equals
};

template <class T>
__device__ inline Largest largest_logit(const T* row, int classes, unsigned lanes) {
  Largest best = {-INFINITY, INT_MAX};
  for (int c = static_cast<int>(lane_of_thread() % lanes); c < classes; c += static_cast<int>(lanes)) {
    const float logit = to_float(row[c]);
    if (logit > best.value || best.index == INT_MAX) best = {logit, c};
  }
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    const float value = __shfl_xor_sync(all_lanes, best.value, static_cast<int>(offset));
    const int index = __shfl_xor_sync(all_lanes, best.index, static_cast<int>(offset));
    if (value > best.value || (value == best.value && index < best.index)) best = {value, index};
  }
  return best;
}

template <class T>
struct Rows {
  const T* logits;
  const std::int32_t* labels;
  T* gradient;
  unsigned count;
  int classes;
  unsigned lanes;
};

// Writes the row's gradient; returns its loss, with `hit` if its first largest logit is the label's, in the
// first of its lanes and nothing in the others. A row beyond the end goes along as the last one.
template <class T>
__device__ inline float work_on_row(const Rows<T>& rows, unsigned row, float scale, bool& hit) {
  const bool there = row < rows.count;
  const std::size_t offset = static_cast<std::size_t>(there ? row : rows.count - 1) * rows.classes;
  const T* logits = rows.logits + offset;
  const int first = static_cast<int>(lane_of_thread() % rows.lanes);
  const Largest best = largest_logit(logits, rows.classes, rows.lanes);

  float total = 0.0F;
  for (int c = first; c < rows.classes; c += static_cast<int>(rows.lanes)) {
    total += expf(to_float(logits[c]) - best.value);
  }
  total = sum_of_lanes(total, rows.lanes);
  if (!there) return 0.0F;

  const int label = rows.labels[row];
  if (rows.gradient != nullptr) {
    for (int c = first; c < rows.classes; c += static_cast<int>(rows.lanes)) {
      const float probability = expf(to_float(logits[c]) - best.value) / total;
      from_float(scale * (probability - (c == label ? 1.0F : 0.0F)), rows.gradient[offset + c]);
    }
  }
  if (first != 0) return 0.0F;
  hit = best.index == label;
  return logf(total) + (best.value - to_float(logits[label]));
}

template <class T>
__global__ void __launch_bounds__(block_size)
    softmax_cross_entropy_kernel(Rows<T> rows, const StepBlock* step, StepOutcome* outcome, double* sums) {
  const float scale = step->gradient_scale;
  const unsigned rows_of_warp = warp_size / rows.lanes;
  const unsigned stride = gridDim.x * warps * rows_of_warp;
  double loss = 0.0;
  int correct = 0;
  for (unsigned base = (blockIdx.x * warps + warp_of_thread()) * rows_of_warp; base < rows.count;
       base += stride) {
    bool hit = false;
    loss += static_cast<double>(work_on_row(rows, base + lane_of_thread() / rows.lanes, scale, hit));
    correct += hit ? 1 : 0;
  }

  loss = sum_of_block(loss);
  correct = sum_of_block(correct);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = loss;
    atomicAdd(&outcome->correct, correct);
  }
  if (!is_last_block(&outcome->loss_blocks)) return;
  static_assert(loss_scratch <= block_size);
  loss = sum_of_block(threadIdx.x < gridDim.x ? __ldcg(sums + threadIdx.x) : 0.0);
  if (threadIdx.x == 0) outcome->loss_sum += loss;
}

}  // namespace

cudaError_t softmax_cross_entropy(const LossBatch& batch, const StepBlock* step, StepOutcome* outcome,
                                  double* scratch, cudaStream_t stream) {
  if (batch.count < 0 || batch.classes < 1) return cudaErrorInvalidValue;
  if (batch.count == 0) return cudaSuccess;
  const unsigned lanes = lanes_for(batch.classes);
  const unsigned blocks = blocks_for(static_cast<std::size_t>(batch.count) * lanes, loss_scratch);
  return with_element(batch.element, [&]<class T>(ElementType<T>) {
    const Rows<T> rows = {static_cast<const T*>(batch.logits), batch.labels,  static_cast<T*>(batch.gradient),
                          static_cast<unsigned>(batch.count),  batch.classes, lanes};
    return launch(softmax_cross_entropy_kernel<T>, blocks, block_size, stream, rows, step, outcome, scratch);
  });
}

}  // namespace dtrain::kernels::cuda
