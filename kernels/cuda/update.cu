#include "kernels/cuda/update.hpp"

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

struct Sgd {
  static constexpr int states = 1;

  __device__ static void apply(const StepBlock& step, float gradient, float& w, float (&state)[states]) {
    state[0] = step.momentum * state[0] + gradient;
    w -= step.decay * w + step.learning_rate * state[0];
  }
};

struct Adam {
  static constexpr int states = 2;

  __device__ static void apply(const StepBlock& step, float gradient, float& w, float (&state)[states]) {
    state[0] = step.beta1 * state[0] + step.one_minus_beta1 * gradient;
    state[1] = step.beta2 * state[1] + step.one_minus_beta2 * gradient * gradient;
    w -= step.decay * w + step.step_size * state[0] / (sqrtf(state[1]) * step.second_scale + step.epsilon);
  }
};

template <class Rule, class Copy>
struct Update {
  static constexpr int width = 4;
  const StepBlock* __restrict__ step;
  StepOutcome* outcome;
  float* __restrict__ weights;
  const float* __restrict__ gradients;
  float* __restrict__ states[Rule::states];
  Copy* __restrict__ copy;

  __device__ bool idle() const { return outcome->not_finite != 0; }

  template <int N>
  __device__ void at(std::size_t first) const {
    float w[N], g[N], state[Rule::states][N];
    load(weights + first, w);
    load(gradients + first, g);
    for (int s = 0; s < Rule::states; ++s) load(states[s] + first, state[s]);
    bool bad = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float own[Rule::states];
      for (int s = 0; s < Rule::states; ++s) own[s] = state[s][i];
      Rule::apply(*step, g[i] * step->gradient_unscale, w[i], own);
      for (int s = 0; s < Rule::states; ++s) state[s][i] = own[s];
      bad = bad || not_finite(w[i]);
    }
    store(weights + first, w);
    for (int s = 0; s < Rule::states; ++s) store(states[s] + first, state[s]);
    if (copy != nullptr) store(copy + first, w);
    if (bad) atomicOr(&outcome->weights_not_finite, 1);
  }
};

template <class Rule>
cudaError_t update(const UpdateRange& range, const StepBlock* step, StepOutcome* outcome,
                   cudaStream_t stream) {
  return with_element(range.element, [&]<class Copy>(ElementType<Copy>) {
    Update<Rule, Copy> work{
        step, outcome, range.weights, range.gradients, {}, static_cast<Copy*>(range.copy)};
    work.states[0] = range.state0;
    if constexpr (Rule::states > 1) work.states[1] = range.state1;
    return for_each(range.size, stream, work,
                    {work.weights, work.gradients, work.states[0], work.states[Rule::states - 1], work.copy});
  });
}

}  // namespace

cudaError_t update_weights(UpdateRule rule, const UpdateRange& range, const StepBlock* step,
                           StepOutcome* outcome, cudaStream_t stream) {
  return rule == UpdateRule::sgd ? update<Sgd>(range, step, outcome, stream)
                                 : update<Adam>(range, step, outcome, stream);
}

}  // namespace dtrain::kernels::cuda
