#include "backend/xla/loss.hpp"

namespace dtrain::backend::xla {

namespace {

Value sum_of_images(const Scope& scope, const Value& by_image) {
  Writer& w = *scope.writer;
  return w.reduce("add", scope.mask ? w.multiply(by_image, *scope.mask) : by_image, 0.0, {0});
}

}  // namespace

Loss write_loss(const Scope& scope, const Value& logits, const Value& labels) {
  Writer& w = *scope.writer;
  const std::int64_t images = scope.target->images;
  const std::int64_t classes = scope.model().classes;
  const Dims dims = {images, classes};
  const auto over_classes = [&](const Value& a) { return w.broadcast(a, dims, {0}); };

  const Value rows = w.reshape(logits, dims);
  const Value numbers = w.iota({Element::s32, dims}, 1);
  const Value is_label = w.compare("EQ", numbers, over_classes(labels));
  const Value largest = w.reduce("maximum", rows, -INFINITY, {1});
  const Value none = w.constant(static_cast<double>(classes), {Element::s32, dims});
  const Value candidates = w.select(w.compare("EQ", rows, over_classes(largest)), numbers, none);
  const Value guess = w.reduce("minimum", candidates, static_cast<double>(classes), {1});
  const Value right = w.compare("EQ", guess, labels);

  const Value powers = w.unary("exponential", w.subtract(rows, over_classes(largest)));
  const Value total = w.reduce("add", powers, 0.0, {1});
  const Value zeros = w.constant(0.0, rows.type);
  const Value of_label = w.reduce("add", w.select(is_label, rows, zeros), 0.0, {1});
  const Value by_image = w.subtract(w.add(w.unary("log", total), largest), of_label);

  Loss loss;
  loss.sum = sum_of_images(scope, by_image);
  loss.correct = sum_of_images(scope, w.convert(right, Element::f32));
  loss.softmax = w.divide(powers, over_classes(total));
  loss.one_hot = w.convert(is_label, Element::f32);
  return loss;
}

Value write_loss_gradient(const Scope& scope, const Loss& loss, const Value& logits, const Value& scale) {
  Writer& w = *scope.writer;
  Value gradient = w.multiply(w.subtract(loss.softmax, loss.one_hot), scale);
  if (scope.mask) gradient = w.multiply(gradient, w.broadcast(*scope.mask, gradient.type.dims, {0}));
  return w.reshape(gradient, logits.type.dims);
}

}  // namespace dtrain::backend::xla
