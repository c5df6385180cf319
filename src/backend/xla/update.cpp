#include "backend/xla/update.hpp"

#include <cmath>

#include "base/registry.hpp"

namespace dtrain::backend::xla {

namespace {

// A parameter with its states and the step's numbers, while its update is being written.
struct Update {
  Writer& w;
  const Value& weights;
  const std::vector<Value>& states;
  Value gradient;
  const std::vector<Value>& numbers;

  const Value& number(Number n) const { return numbers[static_cast<std::size_t>(n)]; }
  Value scaled(Number n, const Value& value) const { return w.multiply(number(n), value); }
  Value stepped(const Value& change) const {
    return w.subtract(weights, w.add(scaled(Number::decay, weights), scaled(Number::rate, change)));
  }
};

struct Lowering {
  void (*fill)(Numbers&, const kernels::OptimizerStep&) = nullptr;
  std::vector<Value> (*write)(const Update&) = nullptr;
};

float& at(Numbers& numbers, Number n) { return numbers[static_cast<std::size_t>(n)]; }

void fill_sgd(Numbers& numbers, const kernels::OptimizerStep& step) {
  at(numbers, Number::rate) = static_cast<float>(step.learning_rate);
  at(numbers, Number::first_kept) = static_cast<float>(step.momentum);
}

std::vector<Value> write_sgd(const Update& u) {
  const Value velocity = u.w.add(u.scaled(Number::first_kept, u.states[0]), u.gradient);
  return {u.stepped(velocity), velocity};
}

void fill_adam(Numbers& numbers, const kernels::OptimizerStep& step) {
  const auto t = static_cast<double>(step.step);
  at(numbers, Number::rate) = static_cast<float>(step.learning_rate / (1.0 - std::pow(step.beta1, t)));
  at(numbers, Number::first_kept) = static_cast<float>(step.beta1);
  at(numbers, Number::first_new) = static_cast<float>(1.0 - step.beta1);
  at(numbers, Number::second_kept) = static_cast<float>(step.beta2);
  at(numbers, Number::second_new) = static_cast<float>(1.0 - step.beta2);
  at(numbers, Number::root_scale) = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t)));
  at(numbers, Number::epsilon) = static_cast<float>(step.epsilon);
}

std::vector<Value> write_adam(const Update& u) {
  const Value first =
      u.w.add(u.scaled(Number::first_kept, u.states[0]), u.scaled(Number::first_new, u.gradient));
  const Value square = u.w.multiply(u.gradient, u.gradient);
  const Value second =
      u.w.add(u.scaled(Number::second_kept, u.states[1]), u.scaled(Number::second_new, square));
  const Value root = u.scaled(Number::root_scale, u.w.unary("sqrt", second));
  const Value change = u.w.divide(first, u.w.add(root, u.number(Number::epsilon)));
  return {u.stepped(change), first, second};
}

const Registry<Lowering>& lowerings() {
  static const auto table = [] {
    Registry<Lowering> all("optimizer of the XLA backend");
    all.add("sgd", "", {&fill_sgd, &write_sgd});
    all.add("adam", "", {&fill_adam, &write_adam});
    all.add("adamw", "", {&fill_adam, &write_adam});
    return all;
  }();
  return table;
}

}  // namespace

Numbers step_numbers(const std::string& optimizer, const kernels::OptimizerStep& step, float gradient_scale) {
  Numbers numbers{};
  at(numbers, Number::gradient_scale) = gradient_scale;
  at(numbers, Number::unscale) = static_cast<float>(step.gradient_unscale);
  at(numbers, Number::decay) = static_cast<float>(step.learning_rate * step.weight_decay);
  lowerings().at(optimizer).value.fill(numbers, step);
  return numbers;
}

std::vector<Value> write_update(Writer& writer, const std::string& optimizer, const Value& weights,
                                const std::vector<Value>& states, const Value& gradient,
                                const std::vector<Value>& numbers) {
  Update update{writer, weights, states, gradient, numbers};
  update.gradient = update.scaled(Number::unscale, gradient);
  return lowerings().at(optimizer).value.write(update);
}

}  // namespace dtrain::backend::xla
