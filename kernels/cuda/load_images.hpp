#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "kernels/cuda/step_block.hpp"
#include "kernels/normalise.hpp"

namespace dtrain::kernels::cuda {

// What a step's images become. `images` is [count][32][32][channels], red, green, blue, then zeros; channels
// >= 3, and 3, 4 and 8 are fast where `images` is aligned to 16 bytes.
struct ImageTarget {
  void* images = nullptr;
  Element element = Element::f32;
  int channels = 3;
  std::int32_t* labels = nullptr;  // [count]; null = not wanted
};

// Fetches, crops, mirrors and normalises the first `count` images that `step` names.
cudaError_t load_images(const StepBlock* step, const Normalisation& normalisation, int count,
                        const ImageTarget& target, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
