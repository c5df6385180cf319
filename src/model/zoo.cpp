#include "model/zoo.hpp"

namespace dtrain::model {

namespace {

constexpr Shape cifar_image{3, 32, 32};
constexpr int cifar_classes = 10;

// Appends layers that each read the one before.
class Chain {
 public:
  int add(std::string name, Operation operation) { return add(std::move(name), operation, {last()}); }
  int add(std::string name, Operation operation, std::vector<int> inputs) {
    layers_.push_back({std::move(name), operation, std::move(inputs), {}, {}});
    return last();
  }
  int last() const { return static_cast<int>(layers_.size()) - 1; }
  std::vector<Layer> take() { return std::move(layers_); }

 private:
  std::vector<Layer> layers_;
};

static_assert(image_input == -1, "an empty chain's last layer is the image");

Model make_mlp() {
  Chain chain;
  chain.add("dense1", Dense{128});
  chain.add("relu1", Relu{});
  chain.add("dense2", Dense{cifar_classes});
  return build("mlp", cifar_image, cifar_classes, chain.take());
}

Model make_cnn() {
  Chain chain;
  chain.add("conv1", Convolution{32});
  chain.add("relu1", Relu{});
  chain.add("pool1", MaxPool{2});
  chain.add("conv2", Convolution{64});
  chain.add("relu2", Relu{});
  chain.add("pool2", MaxPool{2});
  chain.add("conv3", Convolution{64});
  chain.add("relu3", Relu{});
  chain.add("dense1", Dense{64});
  chain.add("relu4", Relu{});
  chain.add("dense2", Dense{cifar_classes});
  return build("cnn", cifar_image, cifar_classes, chain.take());
}

// convolution 3x3 without bias, batch norm, ReLU
void add_unit(Chain& chain, const std::string& name, int channels) {
  chain.add(name, Convolution{.out_channels = channels, .kernel = 3, .padding = 1, .bias = false});
  // The unit's name belongs to the convolution and the batch norm both: prep_w, prep_gamma, prep_beta.
  chain.add(name, BatchNorm{});
  chain.add(name + "_relu", Relu{});
}

void add_residual(Chain& chain, const std::string& name, int channels) {
  const int input = chain.last();
  add_unit(chain, name + "a", channels);
  add_unit(chain, name + "b", channels);
  chain.add(name + "_add", Add{}, {input, chain.last()});
}

Model make_resnet9() { return resnet9(64); }

}  // namespace

Model resnet9(int width) {
  Chain chain;
  add_unit(chain, "prep", width);
  add_unit(chain, "l1", 2 * width);
  chain.add("l1_pool", MaxPool{2});
  add_residual(chain, "r1", 2 * width);
  add_unit(chain, "l2", 4 * width);
  chain.add("l2_pool", MaxPool{2});
  add_unit(chain, "l3", 8 * width);
  chain.add("l3_pool", MaxPool{2});
  add_residual(chain, "r3", 8 * width);
  chain.add("pool", MaxPool{4});
  chain.add("fc", Dense{cifar_classes});
  return build(width == 64 ? "resnet9" : "resnet9_w" + std::to_string(width), cifar_image, cifar_classes,
               chain.take());
}

OpenRegistry<ModelMaker>& open_zoo() {
  static OpenRegistry<ModelMaker> table([] {
    Registry<ModelMaker> models("model");
    models.add("mlp", "dense 128, ReLU, dense 10; 394,634 parameters", &make_mlp);
    models.add("cnn", "3 convolutions (32, 64, 64), 2 pools, dense 64, dense 10; 122,570 parameters",
               &make_cnn);
    models.add("resnet9", "residual network with batch norm (64 to 512 channels); 6,573,130 parameters",
               &make_resnet9);
    return models;
  }());
  return table;
}

const Registry<ModelMaker>& zoo() { return open_zoo().get(); }

}  // namespace dtrain::model
