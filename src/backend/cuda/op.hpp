#pragma once

#include <memory>
#include <vector>

#include "backend/arena.hpp"
#include "backend/cuda/flat_layout.hpp"
#include "backend/cuda/plans.hpp"
#include "backend/lowering.hpp"

namespace dtrain::backend::cuda {

// A buffer in the arena, known by its index until the arena is placed.
using BufferId = int;
inline constexpr BufferId no_buffer = -1;

// An activation, NHWC, and in training its gradient.
struct Tensor {
  ActivationShape shape;
  BufferId value = no_buffer;
  BufferId gradient = no_buffer;
  void* values = nullptr;
  void* gradients = nullptr;  // null: nobody wants it
  std::size_t rows() const { return static_cast<std::size_t>(shape.batch) * shape.height * shape.width; }
  std::size_t elements() const { return rows() * static_cast<std::size_t>(shape.channels); }
};

// A replica's flat buffers on the device; all have the layout's size.
struct FlatBuffers {
  float* weights = nullptr;          // fp32
  void* compute_weights = nullptr;   // elements; the weights themselves where elements are fp32
  float* gradients = nullptr;        // fp32
  void* staged_gradients = nullptr;  // elements, of weights alone: what cuDNN writes before it is added up
  float* statistics = nullptr;       // Model::statistics order
};

// What an op sees while buffers are being counted: shapes are known, memory is not there yet.
struct Builder {
  const model::Model* model = nullptr;
  const FlatLayout* layout = nullptr;
  std::vector<Lifetime>* lifetimes = nullptr;
  Element element = Element::f32;
  int moments = 0;  // 2 ops + 1: forward of op i at i, the loss at ops, backward of op i at moments - 1 - i

  BufferId buffer(std::size_t bytes, int first, int last) const {
    lifetimes->push_back({bytes, first, last});
    return static_cast<BufferId>(lifetimes->size()) - 1;
  }
};

// The addresses and plans that exist once everything is allocated.
struct Bindings {
  std::byte* arena = nullptr;
  const std::vector<std::size_t>* offsets = nullptr;
  FlatBuffers flat;
  Plans* plans = nullptr;
  cudaStream_t stream = nullptr;

  template <class T = void>
  T* at(BufferId id) const {
    if (id == no_buffer) return nullptr;
    return static_cast<T*>(static_cast<void*>(arena + (*offsets)[static_cast<std::size_t>(id)]));
  }
};

// How an op meets its neighbours.
struct Place {
  int index = 0;  // of the op, in forward order
  const FusedLayer* fused = nullptr;
  const model::Layer* layer = nullptr;
  std::vector<Tensor*> inputs;
  std::vector<bool> accumulates;  // an op later in forward order has already written that input's gradient
  Tensor* output = nullptr;
};

// A fused layer lowered for one batch size. Calls enqueue on the replica's stream.
class Op {
 public:
  virtual ~Op() = default;
  // Plans and tunes: the contents of all buffers, gradients included, are lost.
  virtual void bind(const Bindings& bindings) = 0;
  virtual void forward(bool training) = 0;
  // Reads the output's gradient (and masks it), writes (or adds to) the parameters' gradients. Weights go to
  // staged_gradients where that is not the gradients' own place; see stages().
  virtual void backward_parameters(bool add) = 0;
  // Writes (or adds to) the inputs' gradients.
  virtual void backward_inputs() = 0;
};

std::unique_ptr<Op> make_weighted(const Builder& builder, const Place& place);  // convolution, dense
std::unique_ptr<Op> make_batch_norm(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_max_pool(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_relu(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_add(const Builder& builder, const Place& place);

// Whether weight gradients of such a pass lie in staged_gradients and are to be moved into the flat buffer.
constexpr bool stages(Element element, bool add) { return add || element != Element::f32; }

}  // namespace dtrain::backend::cuda
