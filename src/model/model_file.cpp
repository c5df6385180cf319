#include "model/model_file.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"
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

using Names = std::vector<std::string>;

bool is_word(const std::string& text) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

// What a file says may be anything.
std::string one_line(std::string text) {
  constexpr std::size_t longest = 400;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

std::string suggestion(const std::string& word, const Names& known) {
  const auto close = nearest(word, known);
  return (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", ");
}

// A table of the file. Every error says where it is: file, line, layer, key.
class Section {
 public:
  Section(std::string file, const toml::table& table, std::string label)
      : file_(std::move(file)), table_(&table), label_(std::move(label)) {}

  std::size_t line() const { return table_->source().begin.line; }
  bool has(const char* key) const { return table_->contains(key); }

  [[noreturn]] void fail(std::size_t line, const std::string& what, const std::string& advice) const {
    const std::string place = line == 0 ? file_ : fmt::format("{}:{}", file_, line);
    const std::string label = label_.empty() ? "" : label_ + ": ";
    throw data_error(one_line(fmt::format("{}: {}{}", place, label, what)), one_line(advice));
  }
  [[noreturn]] void fail(const char* key, const std::string& what, const std::string& advice) const {
    fail(has(key) ? line_of(*table_->get(key)) : line(), what, advice);
  }

  void require_known(const Names& known) const {
    for (const auto& [key, node] : *table_) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      fail(line_of(node), fmt::format("unknown key '{}'", name), suggestion(name, known));
    }
  }

  std::string text(const char* key, const std::optional<std::string>& otherwise) const {
    const std::string wanted = "a word in quotes";
    const toml::node* node = find(key, otherwise.has_value(), wanted);
    if (node == nullptr) return *otherwise;
    if (!node->is_string()) wrong(*node, key, wanted);
    return **node->as_string();
  }
  int whole(const char* key, std::optional<int> otherwise, int low, int high) const {
    const std::string wanted = fmt::format("a whole number from {} to {}", low, high);
    const toml::node* node = find(key, otherwise.has_value(), wanted);
    if (node == nullptr) return *otherwise;
    const auto* value = node->as_integer();
    if (value == nullptr || **value < low || **value > high) wrong(*node, key, wanted);
    return static_cast<int>(**value);
  }
  float number(const char* key, float otherwise, float low, float high) const {
    const std::string wanted = fmt::format("a number from {} to {}", low, high);
    const toml::node* node = find(key, true, wanted);
    if (node == nullptr) return otherwise;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value >= low && *value <= high)) wrong(*node, key, wanted);
    return static_cast<float>(*value);
  }
  bool yes(const char* key, bool otherwise) const {
    const toml::node* node = find(key, true, "");
    if (node == nullptr) return otherwise;
    if (!node->is_boolean()) wrong(*node, key, "true or false");
    return **node->as_boolean();
  }
  Names words(const char* key) const {
    const std::string wanted = "names of layers, such as [\"conv1\"]";
    const toml::node* node = find(key, false, wanted);
    if (!node->is_array()) wrong(*node, key, wanted);
    Names names;
    for (const auto& each : *node->as_array()) {
      if (!each.is_string()) wrong(each, key, wanted);
      names.push_back(**each.as_string());
    }
    return names;
  }
  // Sections of an array of tables, [[key]].
  std::vector<const toml::table*> tables(const char* key) const {
    const std::string wanted = "layers, each after a line [[layer]]";
    const toml::node* node = find(key, false, wanted);
    if (!node->is_array()) wrong(*node, key, wanted);
    std::vector<const toml::table*> found;
    for (const auto& each : *node->as_array()) {
      if (!each.is_table()) wrong(each, key, wanted);
      found.push_back(each.as_table());
    }
    return found;
  }

 private:
  static std::size_t line_of(const toml::node& node) { return node.source().begin.line; }

  const toml::node* find(const char* key, bool may_miss, const std::string& wanted) const {
    const toml::node* node = table_->get(key);
    if (node == nullptr && !may_miss)
      fail(line(), fmt::format("has no {}", key), fmt::format("add {} = {}", key, wanted));
    return node;
  }
  [[noreturn]] void wrong(const toml::node& node, const char* key, const std::string& wanted) const {
    std::ostringstream shown;
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>)
        shown << value;
      else
        shown << "of the kind " << value.type();
    });
    fail(line_of(node), fmt::format("{} is {}", key, shown.str()), fmt::format("{} must be {}", key, wanted));
  }

  std::string file_;
  const toml::table* table_;
  std::string label_;
};

struct LayerType {
  const char* name;
  const char* prefix;  // of a layer without a name: conv1
  Names keys;
  Operation (*read)(const Section&);
};

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types{
      {"convolution",
       "conv",
       {"out_channels", "kernel", "padding", "bias"},
       [](const Section& s) -> Operation {
         const int kernel = s.whole("kernel", 3, 1, largest_window);
         return Convolution{.out_channels = s.whole("out_channels", {}, 1, widest),
                            .kernel = kernel,
                            .padding = s.whole("padding", 0, 0, kernel - 1),
                            .bias = s.yes("bias", true)};
       }},
      {"dense",
       "dense",
       {"out_features", "bias"},
       [](const Section& s) -> Operation {
         return Dense{s.whole("out_features", {}, 1, widest), s.yes("bias", true)};
       }},
      {"relu", "relu", {}, [](const Section&) -> Operation { return Relu{}; }},
      {"max_pool",
       "pool",
       {"size"},
       [](const Section& s) -> Operation { return MaxPool{s.whole("size", 2, 2, largest_window)}; }},
      {"batch_norm",
       "norm",
       {"epsilon", "momentum"},
       [](const Section& s) -> Operation {
         return BatchNorm{s.number("epsilon", 1e-5F, 1e-7F, 1.0F), s.number("momentum", 0.1F, 0.0F, 1.0F)};
       }},
      {"add", "add", {}, [](const Section&) -> Operation { return Add{}; }}};
  return types;
}

const LayerType& type_of(const Section& section) {
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
    const Section& last = sections_.back();
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
    const Section section(file_, table, label);
    const LayerType& type = type_of(section);
    Names keys{"type", "name", "inputs"};
    keys.insert(keys.end(), type.keys.begin(), type.keys.end());
    section.require_known(keys);

    Layer layer;
    layer.name = new_name(section, type);
    layer.operation = type.read(section);
    layer.inputs = inputs_of(section, layer);
    shapes_.push_back(shape_of(section, layer));
    layers_.push_back(std::move(layer));
    sections_.push_back(section);
  }

  std::string new_name(const Section& section, const LayerType& type) {
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

  std::vector<int> inputs_of(const Section& section, const Layer& layer) const {
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

  int input_named(const Section& section, const std::string& name) const {
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

  Shape shape_of(const Section& section, Layer layer) const {
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
  std::vector<Section> sections_;
  std::map<std::string, int> counts_;
};

toml::table parse(const std::filesystem::path& file) {
  const std::string text = read_model_text(file);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    Section(file.string(), {}, "")
        .fail(error.source().begin.line, std::string(error.description()),
              "a model file is TOML: lines such as type = \"relu\" after [[layer]]");
  }
}

}  // namespace

Model read_model(const std::filesystem::path& file) {
  const toml::table root = parse(file);
  const Section section(file.string(), root, "");
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
