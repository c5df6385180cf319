#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dtrain::model {

// Channels, height, width of one image's activation; a vector is {n, 1, 1}.
struct Shape {
  int channels = 0;
  int height = 1;
  int width = 1;
  std::size_t elements() const { return static_cast<std::size_t>(channels) * height * width; }
  bool operator==(const Shape&) const = default;
};

struct Convolution {  // square kernel, stride 1
  int out_channels = 0;
  int kernel = 3;
  int padding = 0;
  bool bias = true;
};
struct Dense {  // y = W x + b over the flattened (channels, height, width) input
  int out_features = 0;
  bool bias = true;
};
struct Relu {};
struct MaxPool {  // window = stride = size, incomplete windows at the far edge dropped
  int size = 2;
};
struct BatchNorm {  // over batch, height, width; biased variance in training, running statistics in
                    // evaluation
  float epsilon = 1e-5F;
  float momentum = 0.1F;  // running = (1 - momentum) running + momentum batch (unbiased variance)
};
struct Add {};  // sum of two inputs

// Collective layers, of a model whose channels are split over ranks.
struct GatherChannels {       // backward: this rank's own channels of the gradient
  std::vector<int> channels;  // of every rank; they come one after the other
};
struct SumGradients {};  // the input as it is; backward: the sum of the gradient over ranks

// Layers at the edges of a stage of a pipeline, of activations in canonical order.
struct Slice {  // elements of each image of a stage's input, from `offset` on. No two slices overlap.
  std::size_t offset = 0;
  Shape shape;
};
struct Concatenate {};  // image by image, input by input: channels where they have one height and width, else
                        // elements of a vector

using Operation = std::variant<Convolution, Dense, Relu, MaxPool, BatchNorm, Add, GatherChannels,
                               SumGradients, Slice, Concatenate>;

inline constexpr int image_input = -1;

// A node of a graph in topological order. Inputs are indices of earlier layers, or `image_input`.
struct Layer {
  std::string name;
  Operation operation;
  std::vector<int> inputs;
  Shape output;                     // inferred
  std::vector<Shape> input_shapes;  // inferred
};

// A trainable tensor. Canonical order of elements: convolution (out, in, kh, kw), dense (out, in).
struct Parameter {
  std::string name;  // "conv1_w", "conv1_b", "prep_gamma"
  int layer = 0;
  std::vector<int> dims;
  std::size_t offset = 0;  // in the canonical flat buffer
  std::size_t size = 0;
};

// Running mean and variance of a batch norm: state that is not trained but belongs to the model.
struct Statistic {
  std::string name;  // "prep_running_mean"
  int layer = 0;
  std::size_t offset = 0;
  std::size_t size = 0;
};

struct Model {
  std::string name;
  Shape image;  // {3, 32, 32}
  int classes = 10;
  std::vector<Layer> layers;  // the last one's output are the logits
  std::vector<Parameter> parameters;
  std::vector<Statistic> statistics;
  std::size_t parameter_count = 0;
  std::size_t statistic_count = 0;
  bool has_batch_statistics() const { return statistic_count > 0; }
};

// What a layer of these inputs gives. Throws std::logic_error that names it where it does not fit them.
Shape infer_output(const Layer& layer);

// Infers shapes and lays out parameters. Throws std::logic_error for a graph that does not fit together.
Model build(std::string name, Shape image, int classes, std::vector<Layer> layers);

// Initial values in canonical order: He normal for weights before a ReLU (fan in), Glorot uniform for the
// last layer, zero biases, one for gamma. A function of (model, seed) alone.
std::vector<float> initial_weights(const Model& model, std::uint64_t seed);
std::vector<float> initial_statistics(const Model& model);  // mean 0, variance 1

}  // namespace dtrain::model
