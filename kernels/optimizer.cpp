#include "kernels/optimizer.hpp"

#include <bit>
#include <cmath>

#include "kernels/dispatch.hpp"

namespace dtrain::kernels {

namespace {

// All exponent bits set means infinity or NaN. Kept as an integer so that loops stay vectorised.
inline std::uint32_t not_finite(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7f800000U) == 0x7f800000U;
}

DTRAIN_DISPATCH bool scan(const float* values, std::size_t count) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) bad |= not_finite(values[i]);
  return bad == 0;
}

struct SgdFactors {
  float unscale, momentum, rate, decay;
};

DTRAIN_DISPATCH bool sgd_loop(float* __restrict w, const float* __restrict g, float* __restrict v,
                              std::size_t count, SgdFactors f) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * f.unscale;
    bad |= not_finite(gradient);
    v[i] = f.momentum * v[i] + gradient;
    w[i] -= f.decay * w[i] + f.rate * v[i];
  }
  return bad == 0;
}

bool sgd(std::span<float> weights, std::span<const float> gradients, std::span<float> velocity,
         std::span<float>, const OptimizerStep& step) {
  return sgd_loop(
      weights.data(), gradients.data(), velocity.data(), weights.size(),
      {static_cast<float>(step.gradient_unscale), static_cast<float>(step.momentum),
       static_cast<float>(step.learning_rate), static_cast<float>(step.learning_rate * step.weight_decay)});
}

bool sgd_reference(std::span<float> weights, std::span<const float> gradients, std::span<float> velocity,
                   std::span<float>, const OptimizerStep& step) {
  bool finite = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double gradient = gradients[i] * step.gradient_unscale;
    finite = finite && std::isfinite(gradient);
    const double v = step.momentum * velocity[i] + gradient;
    velocity[i] = static_cast<float>(v);
    weights[i] = static_cast<float>(weights[i] - step.learning_rate * (step.weight_decay * weights[i] + v));
  }
  return finite;
}

struct AdamFactors {
  // 1 - beta is rounded once: taken from a rounded beta it would be off by 5e-5, and so would every update.
  float unscale, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root_scale, epsilon, decay;
};

DTRAIN_DISPATCH bool adam_loop(float* __restrict w, const float* __restrict g, float* __restrict m,
                               float* __restrict v, std::size_t count, AdamFactors f) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = g[i] * f.unscale;
    bad |= not_finite(gradient);
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * gradient;
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * gradient * gradient;
    w[i] -= f.decay * w[i] + f.rate * m[i] / (std::sqrt(v[i]) * f.root_scale + f.epsilon);
  }
  return bad == 0;
}

bool adam(std::span<float> weights, std::span<const float> gradients, std::span<float> m, std::span<float> v,
          const OptimizerStep& step) {
  const double t = static_cast<double>(step.step);
  return adam_loop(weights.data(), gradients.data(), m.data(), v.data(), weights.size(),
                   {.unscale = static_cast<float>(step.gradient_unscale),
                    .beta1 = static_cast<float>(step.beta1),
                    .one_minus_beta1 = static_cast<float>(1.0 - step.beta1),
                    .beta2 = static_cast<float>(step.beta2),
                    .one_minus_beta2 = static_cast<float>(1.0 - step.beta2),
                    .rate = static_cast<float>(step.learning_rate / (1.0 - std::pow(step.beta1, t))),
                    .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t))),
                    .epsilon = static_cast<float>(step.epsilon),
                    .decay = static_cast<float>(step.learning_rate * step.weight_decay)});
}

bool adam_reference(std::span<float> weights, std::span<const float> gradients, std::span<float> first,
                    std::span<float> second, const OptimizerStep& step) {
  bool finite = true;
  const double correction1 = 1.0 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1.0 - std::pow(step.beta2, static_cast<double>(step.step));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double gradient = gradients[i] * step.gradient_unscale;
    finite = finite && std::isfinite(gradient);
    const double m = step.beta1 * first[i] + (1.0 - step.beta1) * gradient;
    const double v = step.beta2 * second[i] + (1.0 - step.beta2) * gradient * gradient;
    first[i] = static_cast<float>(m);
    second[i] = static_cast<float>(v);
    const double change = m / correction1 / (std::sqrt(v / correction2) + step.epsilon);
    weights[i] =
        static_cast<float>(weights[i] - step.learning_rate * (step.weight_decay * weights[i] + change));
  }
  return finite;
}

}  // namespace

const Registry<Optimizer>& optimizers() {
  static const auto table = [] {
    Registry<Optimizer> all("optimizer");
    all.add("sgd", "gradient descent with momentum", {1, 0.0, &sgd, &sgd_reference});
    all.add("adam", "Adam", {2, 0.0, &adam, &adam_reference});
    all.add("adamw", "Adam with decoupled weight decay, 0.01 unless given",
            {2, 0.01, &adam, &adam_reference});
    return all;
  }();
  return table;
}

bool all_finite(std::span<const float> values) { return scan(values.data(), values.size()); }

}  // namespace dtrain::kernels
