#include "backend/xla/device_layout.hpp"
#include "backend/xla/graph.hpp"
#include "base/overloaded.hpp"

namespace dtrain::backend::xla {

namespace {

class Backward {
 public:
  Backward(Scope& scope, const Value& image, const ForwardPass& forward)
      : scope_(scope),
        w_(*scope.writer),
        image_(image),
        forward_(forward),
        gradients_(forward.layers.size()),
        parameters_(scope.model().parameters.size()) {}

  std::vector<Value> run(const Value& logits_gradient) {
    const auto& layers = scope_.model().layers;
    gradients_.back() = logits_gradient;
    for (std::size_t i = layers.size(); i-- > 0;) {
      if (!gradients_[i]) continue;  // nothing uses its output
      layer_ = static_cast<int>(i);
      lower(layers[i], *gradients_[i]);
    }
    std::vector<Value> all;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Dims dims = device_dims(scope_.model(), scope_.model().parameters[p]);
      all.push_back(parameters_[p] ? *parameters_[p] : w_.constant(0.0, {Element::f32, dims}));
    }
    return all;
  }

 private:
  const Value& input(std::size_t k = 0) const {
    const int from = scope_.model().layers[static_cast<std::size_t>(layer_)].inputs.at(k);
    return from == model::image_input ? image_ : forward_.layers[static_cast<std::size_t>(from)].output;
  }
  bool reads_image() const {
    return scope_.model().layers[static_cast<std::size_t>(layer_)].inputs.front() == model::image_input;
  }
  void parameter(std::string_view ending, const Value& gradient) {
    const int index = parameter_of(scope_.model(), layer_, ending);
    if (index >= 0) parameters_[static_cast<std::size_t>(index)] = gradient;
  }
  // Gradients of activations are kept in the activations' element; several are summed in fp32.
  void give(std::size_t k, const Value& gradient) {
    const int to = scope_.model().layers[static_cast<std::size_t>(layer_)].inputs.at(k);
    if (to == model::image_input) return;
    auto& sum = gradients_[static_cast<std::size_t>(to)];
    if (sum) {
      sum = rounded(w_.add(w_.convert(*sum, Element::f32), w_.convert(gradient, Element::f32)));
    } else {
      sum = rounded(gradient);
    }
  }
  Value rounded(const Value& value) { return w_.convert(value, scope_.activation()); }

  void lower(const model::Layer& layer, const Value& gradient) {
    std::visit(
        Overloaded{[&](const model::Convolution& op) { convolution(op, gradient); },
                   [&](const model::Dense&) { dense(gradient); }, [&](const model::Relu&) { relu(gradient); },
                   [&](const model::MaxPool& op) {
                     give(0, write_pool_gradient(scope_, input(), kept(), gradient, op.size));
                   },
                   [&](const model::BatchNorm&) { normalise(gradient); },
                   [&](const model::Add&) {
                     give(0, gradient);
                     give(1, gradient);
                   },
                   [&](const auto&) { throw std::logic_error("forward refuses this operation"); }},
        layer.operation);
  }

  const Activation& kept() const { return forward_.layers[static_cast<std::size_t>(layer_)]; }

  Value sum_over(const Value& a, const Dims& over) {
    return w_.reduce("add", w_.convert(a, Element::f32), 0.0, over);
  }

  // The gradient to the input is a convolution with the kernel turned around. Turned by an operation of its
  // own, because XLA's CPU compiler is slow where the window is reversed instead.
  void convolution(const model::Convolution& op, const Value& gradient) {
    const Value weights = scope_.weight(layer_, "_w");
    const auto [x, slope] = scope_.factors(input(), gradient);
    parameter("_w", w_.convolution(x, slope, {"[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]", op.padding},
                                   weights.type.dims));
    if (op.bias) parameter("_b", sum_over(gradient, {0, 1, 2}));
    if (reads_image()) return;
    const auto [dy, turned] = scope_.factors(gradient, w_.reverse(weights, {0, 1}));
    give(0,
         w_.convolution(dy, turned, {"[b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f]", op.kernel - 1 - op.padding},
                        input().type.dims));
  }

  Value product(const Value& a, const Value& b, int contract_a, int contract_b) {
    const auto [one, other] = scope_.factors(a, b);
    return w_.dot(one, other, contract_a, contract_b);
  }

  void dense(const Value& gradient) {
    const Value weights = scope_.weight(layer_, "_w");
    const Value flat_gradient = w_.reshape(gradient, {scope_.target->images, weights.type.dims[1]});
    const Value flat = w_.reshape(input(), {scope_.target->images, weights.type.dims[0]});
    parameter("_w", product(flat, flat_gradient, 0, 0));
    parameter("_b", sum_over(flat_gradient, {0}));
    if (reads_image()) return;
    give(0, w_.reshape(product(flat_gradient, weights, 1, 1), input().type.dims));
  }

  void relu(const Value& gradient) {
    const Value& output = kept().output;
    const Value open = w_.compare("GT", output, w_.constant(0.0, output.type));
    give(0, w_.select(open, gradient, w_.constant(0.0, gradient.type)));
  }

  void normalise(const Value& gradient) {
    const Value& unit = kept().kept[0];
    const Value& inverse = kept().kept[1];
    const Value& n = kept().kept[2];
    const Value dy = w_.convert(gradient, Element::f32);
    const Value beta = w_.reduce("add", dy, 0.0, {0, 1, 2});
    const Value gamma = w_.reduce("add", w_.multiply(dy, unit), 0.0, {0, 1, 2});
    parameter("_beta", beta);
    parameter("_gamma", gamma);
    if (reads_image()) return;
    const auto spread = [&](const Value& vector) { return w_.broadcast(vector, dy.type.dims, {3}); };
    const Value scale = w_.multiply(w_.convert(scope_.weight(layer_, "_gamma"), Element::f32), inverse);
    const Value common = spread(w_.divide(beta, n));
    const Value along = w_.multiply(unit, spread(w_.divide(gamma, n)));
    Value dx = w_.multiply(w_.subtract(w_.subtract(dy, common), along), spread(scale));
    if (scope_.mask) dx = w_.multiply(dx, w_.broadcast(*scope_.mask, dx.type.dims, {0}));
    give(0, dx);
  }

  Scope& scope_;
  Writer& w_;
  const Value& image_;
  const ForwardPass& forward_;
  std::vector<std::optional<Value>> gradients_;   // to a layer's output
  std::vector<std::optional<Value>> parameters_;  // to a parameter
  int layer_ = 0;
};

}  // namespace

std::vector<Value> write_backward(Scope& scope, const Value& image, const ForwardPass& forward,
                                  const Value& logits_gradient) {
  return Backward(scope, image, forward).run(logits_gradient);
}

}  // namespace dtrain::backend::xla
