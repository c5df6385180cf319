#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/arena.hpp"
#include "backend/cpu/team.hpp"
#include "backend/lowering.hpp"
#include "model/model.hpp"
#include "oneapi/dnnl/dnnl.hpp"

namespace dtrain::backend::cpu {

using Arguments = std::unordered_map<int, dnnl::memory>;

// Where each parameter lies in the flat buffers, and in which oneDNN layout. Filled by the first program that
// is built; later ones (other batch sizes) are built to the same layout.
struct FlatLayout {
  struct Entry {
    dnnl::memory::desc desc;
    std::size_t offset = 0;  // floats
    std::size_t size = 0;    // floats, the layout's padding included
  };
  std::vector<Entry> entries;  // by parameter
  std::size_t size = 0;        // floats
  bool complete = false;
};

// A buffer in the arena, known by its index until the arena is placed.
using BufferId = int;
inline constexpr BufferId no_buffer = -1;

// An activation and, in training, its gradient.
struct Tensor {
  dnnl::memory::desc desc;
  BufferId value = no_buffer;
  BufferId gradient = no_buffer;
  dnnl::memory value_memory;
  dnnl::memory gradient_memory;

  float* values() const { return static_cast<float*>(value_memory.get_data_handle()); }
  float* gradients() const { return static_cast<float*>(gradient_memory.get_data_handle()); }
  std::size_t floats() const { return desc.get_size() / sizeof(float); }
};

// The addresses that exist once everything is allocated.
struct Bindings {
  const dnnl::engine* engine = nullptr;
  std::byte* arena = nullptr;
  const std::vector<std::size_t>* offsets = nullptr;
  float* weights = nullptr;  // what the primitives compute with
  float* gradients = nullptr;
  float* statistics = nullptr;

  void* at(BufferId id) const { return arena + (*offsets)[static_cast<std::size_t>(id)]; }
  dnnl::memory memory(const dnnl::memory::desc& desc, BufferId id) const { return {desc, *engine, at(id)}; }
};

class CollectiveLink;

// What an op sees while a program is being built: shapes are decided, memory is not there yet.
struct Builder {
  const dnnl::engine* engine = nullptr;
  const model::Model* model = nullptr;
  const Team* team = nullptr;
  FlatLayout* layout = nullptr;
  std::vector<Lifetime>* lifetimes = nullptr;
  int count = 0;    // images
  int moments = 0;  // 2 ops + 1: forward of op i at i, the loss at ops, backward of op i at moments - 1 - i
  bool round_bf16 = false;
  int logits = -1;                       // the op that computes them
  const CollectiveLink* link = nullptr;  // of collective layers

  BufferId buffer(std::size_t bytes, int first, int last) const {
    lifetimes->push_back({bytes, first, last});
    return static_cast<BufferId>(lifetimes->size()) - 1;
  }
  int parameter(int layer, const std::string& suffix) const;  // index, or -1
  bool gives_logits(int index) const { return index == logits; }
};

// How an op meets its neighbours.
struct Place {
  int index = 0;  // of the op, in forward order
  const FusedLayer* fused = nullptr;
  const model::Layer* layer = nullptr;
  std::vector<Tensor*> inputs;    // the image's tensor has a gradient in later stages of a pipeline only
  std::vector<bool> accumulates;  // an op later in forward order has already written that input's gradient
  Tensor* output = nullptr;
};

// A fused layer lowered for one batch size.
class Op {
 public:
  virtual ~Op() = default;
  virtual void bind(const Bindings& bindings) = 0;
  virtual void forward(const dnnl::stream& stream, bool training) = 0;
  // Reads the output's gradient, writes (or adds to) the parameters' gradients.
  virtual void backward_parameters(const dnnl::stream& stream, bool add) = 0;
  // Writes (or adds to) the inputs' gradients.
  virtual void backward_inputs(const dnnl::stream& stream) = 0;
};

std::unique_ptr<Op> make_convolution(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_dense(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_batch_norm(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_max_pool(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_relu(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_add(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_slice(const Builder& builder, const Place& place);
std::unique_ptr<Op> make_concatenate(const Builder& builder, const Place& place);

}  // namespace dtrain::backend::cpu
