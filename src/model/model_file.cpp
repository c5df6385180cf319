#include "model/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/file_section.hpp"
#include "model/model_text.hpp"

namespace dtrain::model {

namespace {

constexpr Shape cifar_image{3, 32, 32};
constexpr int cifar_classes = 10;
constexpr int most_classes = 1000;
constexpr int widest = 65536;
constexpr int largest_window = 32;
constexpr std::size_t most_layers = 1000;
constexpr std::size_t most_values = std::size_t{1} << 24;      // of an image, behind one layer
constexpr std::size_t most_parameters = std::size_t{1} << 30;  // 4 GiB in fp32
const std::string image_name = "image";

bool is_word(const std::string& text) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

struct LayerType {
  const char* name;
  const char* prefix;  // of a layer without a name: conv1
  Names keys;
  Operation (*read)(const FileSection&);
};

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types{
      {"convolution",
       "conv",
       {"out_channels", "kernel", "padding", "bias"},
       [](const FileSection& s) -> Operation {
         const int kernel = s.whole("kernel", 3, 1, largest_window);
         return Convolution{.out_channels = s.whole("out_channels", {}, 1, widest),
                            .kernel = kernel,
                            .padding = s.whole("padding", 0, 0, kernel - 1),
                            .bias = s.yes("bias", true)};
       }},
      {"dense",
       "dense",
       {"out_features", "bias"},
       [](const FileSection& s) -> Operation {
         return Dense{s.whole("out_features", {}, 1, widest), s.yes("bias", true)};
       }},
      {"relu", "relu", {}, [](const FileSection&) -> Operation { return Relu{}; }},
      {"max_pool",
       "pool",
       {"size"},
       [](const FileSection& s) -> Operation { return MaxPool{s.whole("size", 2, 2, largest_window)}; }},
      {"batch_norm",
       "norm",
       {"epsilon", "momentum"},
       [](const FileSection& s) -> Operation {
         return BatchNorm{s.number("epsilon", 1e-5F, 1e-7F, 1.0F), s.number("momentum", 0.1F, 0.0F, 1.0F)};
       }},
      {"add", "add", {}, [](const FileSection&) -> Operation { return Add{}; }}};
  return types;
}

const LayerType& type_of(const FileSection& section) {
  Names known;
  for (const LayerType& type : layer_types()) known.emplace_back(type.name);
  if (!section.has("type"))
    section.fail(section.line(), "has no type", "add type = one of " + join(known, ", "));
  const std::string name = section.text("type", {});
  for (const LayerType& type : layer_types()) {
    if (name == type.name) return type;
  }
  section.fail("type", fmt::format("unknown type '{}'", name), suggestion(name, known));
}

// The graph as it grows, a layer at a time.
class Graph {
 public:
  Graph(const std::string& file, const std::vector<const toml::table*>& tables) : file_(file) {
    for (const toml::table* table : tables) {
      if (const auto name = (*table)["name"].value<std::string>()) given_.push_back(*name);
    }
    for (const toml::table* table : tables) add(*table);
    require_all_read();
  }

  Model build(const std::string& name, int classes) {
    const FileSection& last = sections_.back();
    const auto* dense = std::get_if<Dense>(&layers_.back().operation);
    if (dense == nullptr || dense->out_features != classes) {
      last.fail(dense == nullptr ? "type" : "out_features",
                fmt::format("is the last layer, and not {} values wide", classes),
                fmt::format("end with type = \"dense\" and out_features = {}: one value a class", classes));
    }
    Model model = model::build(name, cifar_image, classes, std::move(layers_));
    if (model.parameter_count > most_parameters) {
      throw data_error(fmt::format("{}: has {} parameters", file_, model.parameter_count),
                       fmt::format("make layers narrower: {} at most", most_parameters));
    }
    return model;
  }

 private:
  void add(const toml::table& table) {
    const std::string given = table["name"].value_or(std::string());
    const std::string label = given.empty() ? fmt::format("layer {}", layers_.size() + 1) : "layer " + given;
    const FileSection section(file_, table, label);
    const LayerType& type = type_of(section);
    Names keys{"type", "name", "inputs"};
    keys.insert(keys.end(), type.keys.begin(), type.keys.end());
    section.require_known(keys);

    Layer layer;
    layer.name = new_name(section, type);
    layer.operation = type.read(section);
    layer.inputs = inputs_of(section, layer);
    shapes_.push_back(shape_of(section, layer));
    vectors_.push_back(is_vector(section, layer));
    layers_.push_back(std::move(layer));
    sections_.push_back(section);
  }

  std::string new_name(const FileSection& section, const LayerType& type) {
    const std::string name = section.text("name", fmt::format("{}{}", type.prefix, ++counts_[type.prefix]));
    if (!is_word(name) || name == image_name) {
      section.fail("name", fmt::format("cannot be named '{}'", name),
                   "a name has letters, digits, - and _, 64 at most, and is not \"image\"");
    }
    if (find(name) != nullptr)
      section.fail("name", fmt::format("is the second one named {}", name),
                   "give each layer a name of its own");
    return name;
  }

  const Layer* find(const std::string& name) const {
    const auto found =
        std::find_if(layers_.begin(), layers_.end(), [&](const auto& l) { return l.name == name; });
    return found == layers_.end() ? nullptr : &*found;
  }

  std::vector<int> inputs_of(const FileSection& section, const Layer& layer) const {
    const bool adds = std::holds_alternative<Add>(layer.operation);
    std::vector<int> inputs;
    if (!section.has("inputs") && !adds) {
      inputs.push_back(static_cast<int>(layers_.size()) - 1);
    } else {
      for (const auto& name : section.words("inputs")) inputs.push_back(input_named(section, name));
    }
    if (inputs.size() != (adds ? 2 : 1)) {
      section.fail("inputs", fmt::format("has {} inputs", inputs.size()),
                   adds ? "an add takes two, such as [\"conv1\", \"conv3\"]" : "all types but add take one");
    }
    const bool weighted = std::holds_alternative<Convolution>(layer.operation) ||
                          std::holds_alternative<Dense>(layer.operation);
    if (!weighted && std::find(inputs.begin(), inputs.end(), image_input) != inputs.end()) {
      section.fail("type", "reads the image",
                   "the image is for convolutions and dense layers: put one of them before this layer");
    }
    return inputs;
  }

  int input_named(const FileSection& section, const std::string& name) const {
    if (name == image_name) return image_input;
    if (const Layer* found = find(name)) return static_cast<int>(found - layers_.data());
    if (std::find(given_.begin(), given_.end(), name) != given_.end()) {
      section.fail("inputs", fmt::format("reads '{}', which does not come before it", name),
                   "layers stand in the order in which they are computed: move that one up");
    }
    Names known{image_name};
    for (const auto& layer : layers_) known.push_back(layer.name);
    section.fail("inputs", fmt::format("reads '{}', and there is no such layer", name),
                 suggestion(name, known));
  }

  Shape shape_of(const FileSection& section, Layer layer) const {
    for (const int input : layer.inputs) {
      layer.input_shapes.push_back(input == image_input ? cifar_image
                                                        : shapes_[static_cast<std::size_t>(input)]);
    }
    std::vector<std::string> texts;
    for (const Shape& s : layer.input_shapes)
      texts.push_back(fmt::format("{} x {} x {}", s.channels, s.height, s.width));
    const std::string reads = join(texts, " and ");
    Shape shape;
    try {
      shape = infer_output(layer);
    } catch (const std::logic_error& error) {
      section.fail(section.line(),
                   fmt::format("{}; it reads {} (channels, height, width)", error.what(), reads),
                   "make kernel or size smaller, give padding, or read another layer");
    }
    if (shape.elements() > most_values) {
      section.fail(section.line(), fmt::format("makes {} values of an image", shape.elements()),
                   fmt::format("make it narrower: {} at most", most_values));
    }
    return shape;
  }

  // Whether it gives values without places, as dense layers do: nothing can be convolved over them.
  bool is_vector(const FileSection& section, const Layer& layer) const {
    std::vector<bool> reads;
    for (const int input : layer.inputs) {
      reads.push_back(input != image_input && vectors_[static_cast<std::size_t>(input)]);
    }
    const bool convolves = std::holds_alternative<Convolution>(layer.operation);
    if ((convolves && reads[0]) || reads.front() != reads.back()) {
      section.fail("type",
                   convolves ? "reads what a dense layer gives" : "adds a dense layer to one that is not",
                   "put dense layers last, or give them layers of their own");
    }
    return reads[0] || std::holds_alternative<Dense>(layer.operation);
  }

  void require_all_read() const {
    std::vector<bool> read(layers_.size(), false);
    for (const Layer& layer : layers_) {
      for (const int input : layer.inputs) {
        if (input != image_input) read[static_cast<std::size_t>(input)] = true;
      }
    }
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      if (read[i]) continue;
      sections_[i].fail(
          sections_[i].line(), "is read by nobody",
          fmt::format("add \"{}\" to a later layer's inputs, or leave it out", layers_[i].name));
    }
  }

  std::string file_;
  Names given_;
  std::vector<Layer> layers_;
  std::vector<Shape> shapes_;  // behind each
  std::vector<bool> vectors_;
  std::vector<FileSection> sections_;
  std::map<std::string, int> counts_;
};

toml::table parse(const std::filesystem::path& file) {
  const std::string text = read_model_text(file);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    FileSection(file.string(), {}, "")
        .fail(error.source().begin.line, std::string(error.description()),
              "a model file is TOML: lines such as type = \"relu\" after [[layer]]");
  }
}

}  // namespace

Model read_model(const std::filesystem::path& file) {
  const toml::table root = parse(file);
  const FileSection section(file.string(), root, "");
  section.require_known({"name", "classes", "layer"});
  const std::string name = section.text("name", file.stem().string());
  if (!is_word(name)) {
    section.fail("name", fmt::format("the model cannot be named '{}'", name),
                 "add a line such as name = \"wide\": letters, digits, - and _, 64 at most");
  }
  const int classes = section.whole("classes", cifar_classes, cifar_classes, most_classes);
  const auto layers = section.tables("layer");
  if (layers.empty() || layers.size() > most_layers) {
    section.fail("layer", fmt::format("has {} layers", layers.size()),
                 fmt::format("give 1 to {}, each after a line [[layer]]", most_layers));
  }
  return Graph(file.string(), layers).build(name, classes);
}

}  // namespace dtrain::model
