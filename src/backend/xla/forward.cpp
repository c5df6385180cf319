#include "backend/xla/device_layout.hpp"
#include "backend/xla/graph.hpp"
#include "base/error.hpp"
#include "base/overloaded.hpp"

namespace dtrain::backend::xla {

namespace {

// Adds a vector over the last dimension.
Value add_channels(Writer& writer, const Value& a, const Value& vector) {
  const auto last = static_cast<std::int64_t>(a.type.dims.size()) - 1;
  return writer.add(a, writer.broadcast(vector, a.type.dims, {last}));
}

class Forward {
 public:
  Forward(Scope& scope, const Value& image, bool training)
      : scope_(scope), w_(*scope.writer), image_(image), training_(training) {}

  ForwardPass run() {
    pass_.statistics = scope_.statistics;
    const auto& layers = scope_.model().layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layer_ = static_cast<int>(i);
      pass_.layers.push_back(lower(layers[i]));
    }
    return std::move(pass_);
  }

 private:
  const Value& input(std::size_t k = 0) const {
    const int from = scope_.model().layers[static_cast<std::size_t>(layer_)].inputs.at(k);
    return from == model::image_input ? image_ : pass_.layers[static_cast<std::size_t>(from)].output;
  }
  bool gives_logits() const { return layer_ + 1 == static_cast<int>(scope_.model().layers.size()); }
  // Logits stay in full precision for the loss.
  Value rounded(const Value& value) {
    return gives_logits() ? value : w_.convert(value, scope_.activation());
  }

  Activation lower(const model::Layer& layer) {
    return std::visit(
        Overloaded{[&](const model::Convolution& op) -> Activation {
                     return {convolution(layer, op), {}};
                   },
                   [&](const model::Dense&) -> Activation {
                     return {dense(), {}};
                   },
                   [&](const model::Relu&) -> Activation {
                     return {relu(), {}};
                   },
                   [&](const model::MaxPool& op) { return write_pool(scope_, input(), op.size); },
                   [&](const model::BatchNorm& op) { return training_ ? normalise(op) : evaluate(op); },
                   [&](const model::Add&) -> Activation {
                     return {add(), {}};
                   },
                   [&](const auto&) -> Activation { refuse(layer); }},
        layer.operation);
  }

  [[noreturn]] static void refuse(const model::Layer& layer) {
    throw usage_error(fmt::format("layer {}: an operation that the XLA backend does not lower", layer.name),
                      "use --device cpu or cuda for a model that is split over ranks");
  }

  Value with_bias(const Value& product) {
    if (!scope_.has(layer_, "_b")) return product;
    return add_channels(w_, product, w_.convert(scope_.weight(layer_, "_b"), Element::f32));
  }

  Value convolution(const model::Layer& layer, const model::Convolution& op) {
    const Dims dims = {scope_.target->images, layer.output.height, layer.output.width, layer.output.channels};
    const auto [x, weights] = scope_.factors(input(), scope_.weight(layer_, "_w"));
    return rounded(
        with_bias(w_.convolution(x, weights, {"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", op.padding}, dims)));
  }

  Value dense() {
    const auto [x, weights] = scope_.factors(input(), scope_.weight(layer_, "_w"));
    const Value flat = w_.reshape(x, {scope_.target->images, weights.type.dims[0]});
    const Value sums = with_bias(w_.dot(flat, weights, 1, 0));
    return rounded(w_.reshape(sums, {scope_.target->images, 1, 1, weights.type.dims[1]}));
  }

  Value relu() { return w_.maximum(input(), w_.constant(0.0, {input().type.element, {}})); }

  Value add() {
    return w_.convert(w_.add(w_.convert(input(0), Element::f32), w_.convert(input(1), Element::f32)),
                      scope_.activation());
  }

  // Over images that are real.
  Value sum_of_channels(const Value& a) {
    if (!scope_.mask) return w_.reduce("add", a, 0.0, {0, 1, 2});
    return w_.reduce("add", w_.multiply(a, w_.broadcast(*scope_.mask, a.type.dims, {0})), 0.0, {0, 1, 2});
  }
  Value spread(const Value& vector) { return w_.broadcast(vector, input().type.dims, {3}); }
  Value gamma() { return w_.convert(scope_.weight(layer_, "_gamma"), Element::f32); }
  Value beta() { return w_.convert(scope_.weight(layer_, "_beta"), Element::f32); }

  // Values that a batch norm saw at each channel.
  Value samples() {
    const Dims& dims = input().type.dims;
    const auto pixels = static_cast<double>(dims[1] * dims[2]);
    if (!scope_.real) return w_.scalar(pixels * static_cast<double>(dims[0]));
    return w_.multiply(w_.maximum(*scope_.real, w_.scalar(1.0)), w_.scalar(pixels));
  }

  // Keeps, in fp32: what it normalised to, 1 / deviation, samples.
  Activation normalise(const model::BatchNorm& op) {
    const Value x = w_.convert(input(), Element::f32);
    const Value n = samples();
    const Value mean = w_.divide(sum_of_channels(x), n);
    const Value centred = w_.subtract(x, spread(mean));
    const Value variance = w_.divide(sum_of_channels(w_.multiply(centred, centred)), n);
    const Value inverse = w_.unary("rsqrt", w_.add(variance, w_.scalar(op.epsilon)));
    const Value unit = w_.multiply(centred, spread(inverse));
    const Value output = w_.add(w_.multiply(unit, spread(gamma())), spread(beta()));
    follow("_mean", mean, op);
    const Value unbias = w_.divide(n, w_.maximum(w_.subtract(n, w_.scalar(1.0)), w_.scalar(1.0)));
    follow("_variance", w_.multiply(variance, unbias), op);
    return {rounded(output), {unit, inverse, n}};
  }

  // Moves a running value towards the batch's, if there was one.
  void follow(std::string_view ending, const Value& batch, const model::BatchNorm& op) {
    Value& running = statistic(ending);
    const Value moved = w_.add(running, w_.multiply(w_.subtract(batch, running), w_.scalar(op.momentum)));
    if (!scope_.real) {
      running = moved;
      return;
    }
    const Value any = w_.compare("GT", *scope_.real, w_.scalar(0.0));
    running = w_.select(w_.broadcast(any, running.type.dims, {}), moved, running);
  }

  Value& statistic(std::string_view ending) {
    const auto& all = scope_.model().statistics;
    for (std::size_t s = 0; s < all.size(); ++s) {
      if (all[s].layer == layer_ && all[s].name.ends_with(ending)) return pass_.statistics[s];
    }
    throw std::logic_error("a batch norm without running values");
  }

  Activation evaluate(const model::BatchNorm& op) {
    const Value x = w_.convert(input(), Element::f32);
    const Value inverse = w_.unary("rsqrt", w_.add(statistic("_variance"), w_.scalar(op.epsilon)));
    const Value unit = w_.multiply(w_.subtract(x, spread(statistic("_mean"))), spread(inverse));
    return {rounded(w_.add(w_.multiply(unit, spread(gamma())), spread(beta()))), {}};
  }

  Scope& scope_;
  Writer& w_;
  const Value& image_;
  bool training_;
  int layer_ = 0;
  ForwardPass pass_;
};

}  // namespace

Value Scope::weight(int layer, std::string_view ending) const {
  return weights.at(static_cast<std::size_t>(parameter_of(model(), layer, ending)));
}

bool Scope::has(int layer, std::string_view ending) const {
  return parameter_of(model(), layer, ending) >= 0;
}

std::pair<Value, Value> Scope::factors(const Value& a, const Value& b) const {
  if (a.type.element == b.type.element && !target->on_cpu) return {a, b};
  return {writer->convert(a, Element::f32), writer->convert(b, Element::f32)};
}

ForwardPass write_forward(Scope& scope, const Value& image, bool training) {
  return Forward(scope, image, training).run();
}

}  // namespace dtrain::backend::xla
