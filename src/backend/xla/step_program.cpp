#include "backend/xla/step_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "backend/xla/device_layout.hpp"
#include "backend/xla/loss.hpp"
#include "backend/xla/update.hpp"
#include "datasets/pipeline.hpp"

namespace dtrain::backend::xla {

namespace {

bool computes_gradients(Pass pass) { return pass == Pass::gradients || pass == Pass::step; }
bool updates(Pass pass) { return pass == Pass::step || pass == Pass::update; }

std::vector<Group> arguments_of(const ProgramKind& kind) {
  std::vector<Group> groups = {Group::weights};
  if (updates(kind.pass)) groups.push_back(Group::states);
  if (kind.pass != Pass::update) groups.push_back(Group::statistics);
  if (kind.pass != Pass::evaluate) groups.push_back(Group::gradients);
  if (kind.pass != Pass::update) {
    groups.insert(groups.end(), {Group::images, Group::labels});
    if (kind.masked) groups.push_back(Group::mask);
  }
  if (kind.pass != Pass::evaluate) groups.push_back(Group::numbers);
  return groups;
}

std::vector<Group> results_of(const ProgramKind& kind) {
  std::vector<Group> groups;
  if (updates(kind.pass)) groups.insert(groups.end(), {Group::weights, Group::states});
  if (computes_gradients(kind.pass)) groups.push_back(Group::statistics);
  if (kind.pass != Pass::evaluate) groups.push_back(Group::gradients);
  groups.push_back(Group::metrics);
  return groups;
}

class StepWriter {
 public:
  StepWriter(const Target& target, const ProgramKind& kind) : target_(target), kind_(kind), w_(!target.bf16) {
    program_.arguments = arguments_of(kind);
    program_.results = results_of(kind);
  }

  Program write() {
    declare_arguments();
    metrics_ = {w_.scalar(0.0), w_.scalar(0.0), w_.scalar(1.0), w_.scalar(1.0), w_.scalar(1.0)};
    if (kind_.pass != Pass::update) pass_over_layers();
    if (updates(kind_.pass)) update();
    gather_metrics();
    program_.text = module();
    return std::move(program_);
  }

 private:
  std::vector<Value>& values(Group group) { return values_[group]; }
  Value& metric(Metric m) { return metrics_[static_cast<std::size_t>(m)]; }

  void declare_arguments() {
    int index = 0;
    for (const Group group : program_.arguments) {
      for (const Type& type : group_types(target_, group, kind_.floats)) {
        const Value argument{fmt::format("%arg{}", index++), type};
        arguments_.push_back({argument, group, static_cast<int>(values(group).size())});
        values(group).push_back(argument);
      }
    }
  }

  std::vector<Value> numbers() {
    std::vector<Value> scalars;
    const Value all = values(Group::numbers).front();
    for (int i = 0; i < number_count; ++i) scalars.push_back(w_.reshape(w_.slice(all, {i}, {i + 1}), {}));
    return scalars;
  }

  // [images, height, width, channels]; fp32 even where activations are not, as on the CPU.
  Value image() {
    const Value& given = values(Group::images).front();
    if (kind_.floats) return w_.transpose(given, {0, 2, 3, 1});
    const auto normalisation =
        kernels::Normalisation::from(datasets::channel_mean, datasets::channel_deviation);
    const Value bytes = w_.convert(w_.transpose(given, {0, 2, 3, 1}), Element::f32);
    const auto by_channel = [&](const float(&channels)[3]) {
      return w_.broadcast(w_.vector({channels[0], channels[1], channels[2]}), bytes.type.dims, {3});
    };
    return w_.add(w_.multiply(bytes, by_channel(normalisation.scale)), by_channel(normalisation.shift));
  }

  void pass_over_layers() {
    Scope scope;
    scope.target = &target_;
    scope.writer = &w_;
    for (const Value& weights : values(Group::weights)) {
      scope.weights.push_back(w_.convert(weights, scope.activation()));
    }
    scope.statistics = values(Group::statistics);
    if (kind_.masked) {
      scope.mask = values(Group::mask).front();
      scope.real = w_.reduce("add", *scope.mask, 0.0, {0});
    }
    const Value images = image();
    const ForwardPass forward = write_forward(scope, images, kind_.pass != Pass::evaluate);
    const Loss loss = write_loss(scope, forward.logits(), values(Group::labels).front());
    metric(Metric::loss_sum) = loss.sum;
    metric(Metric::correct) = loss.correct;
    if (!computes_gradients(kind_.pass)) return;

    const Value scale = numbers()[static_cast<std::size_t>(Number::gradient_scale)];
    const Value slope = write_loss_gradient(scope, loss, forward.logits(), scale);
    std::vector<Value> gradients = write_backward(scope, images, forward, slope);
    for (std::size_t p = 0; p < gradients.size() && !kind_.first; ++p) {
      gradients[p] = w_.add(values(Group::gradients)[p], gradients[p]);
    }
    values(Group::gradients) = gradients;
    values(Group::statistics) = forward.statistics;
    if (kind_.pass == Pass::gradients) metric(Metric::own_finite) = flag(all_finite(gradients));
  }

  Value all_finite(const std::vector<Value>& arrays) {
    std::optional<Value> all;
    for (const Value& array : arrays) {
      Dims over;
      for (std::size_t i = 0; i < array.type.dims.size(); ++i) over.push_back(static_cast<std::int64_t>(i));
      const Value finite = w_.reduce("and", w_.is_finite(array), 1.0, over);
      all = all ? w_.binary("and", *all, finite) : finite;
    }
    return *all;
  }
  Value flag(const Value& truth) { return w_.convert(truth, Element::f32); }

  void update() {
    std::vector<Value>& gradients = values(Group::gradients);
    if (target_.replicas > 1) {
      metric(Metric::own_finite) = flag(all_finite(gradients));
      gradients = w_.all_reduce(gradients, target_.replicas);
    }
    const Value finite = all_finite(gradients);
    metric(Metric::sum_finite) = flag(finite);
    if (target_.replicas == 1) metric(Metric::own_finite) = flag(finite);

    const std::vector<Value> scalars = numbers();
    std::vector<Value>& weights = values(Group::weights);
    std::vector<Value>& states = values(Group::states);
    const std::size_t kinds = states.size() / weights.size();
    for (std::size_t p = 0; p < weights.size(); ++p) {
      std::vector<Value> old;
      for (std::size_t s = 0; s < kinds; ++s) old.push_back(states[s * weights.size() + p]);
      std::vector<Value> fresh = write_update(w_, target_.optimizer, weights[p], old, gradients[p], scalars);
      weights[p] = kept_unless(finite, fresh[0], weights[p]);
      for (std::size_t s = 0; s < kinds; ++s) {
        states[s * weights.size() + p] = kept_unless(finite, fresh[s + 1], old[s]);
      }
    }
    metric(Metric::weights_finite) = flag(all_finite(weights));
  }

  Value kept_unless(const Value& finite, const Value& fresh, const Value& old) {
    if (kind_.pass != Pass::update) return fresh;
    return w_.select(w_.broadcast(finite, fresh.type.dims, {}), fresh, old);
  }

  void gather_metrics() { values(Group::metrics) = {w_.stack(metrics_)}; }

  std::string module() {
    std::vector<Value> results;
    std::map<std::pair<Group, int>, int> place;
    for (const Group group : program_.results) {
      program_.result_counts.push_back(static_cast<int>(values(group).size()));
      for (std::size_t i = 0; i < values(group).size(); ++i) {
        place[{group, static_cast<int>(i)}] = static_cast<int>(results.size());
        results.push_back(values(group)[i]);
      }
    }
    std::vector<std::string> arguments;
    for (const Argument& argument : arguments_) {
      const auto reused = place.find({argument.group, argument.index});
      arguments.push_back(fmt::format(
          "{}: {}{}", argument.value.name, argument.value.type.text(),
          reused == place.end() ? "" : fmt::format(" {{tf.aliasing_output = {} : i32}}", reused->second)));
    }
    std::vector<std::string> names;
    std::vector<std::string> types;
    for (const Value& result : results) {
      names.push_back(result.name);
      types.push_back(result.type.text());
    }
    return fmt::format(
        "module @dtrain attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {} : i32}} {{\n"
        "  func.func public @main({}) -> ({}) {{\n{}    return {} : {}\n  }}\n}}\n",
        target_.replicas, fmt::join(arguments, ", "), fmt::join(types, ", "), w_.body(),
        fmt::join(names, ", "), fmt::join(types, ", "));
  }

  struct Argument {
    Value value;
    Group group;
    int index;  // in its group
  };

  const Target& target_;
  ProgramKind kind_;
  Writer w_;
  std::vector<Argument> arguments_;
  std::map<Group, std::vector<Value>> values_;  // what a group holds by now
  std::vector<Value> metrics_;
  Program program_;
};

}  // namespace

std::vector<Type> group_types(const Target& target, Group group, bool floats) {
  const model::Model& model = *target.model;
  const auto floats_of = [](std::int64_t size) { return Type{Element::f32, {size}}; };
  std::vector<Type> types;
  switch (group) {
    case Group::weights:
    case Group::gradients:
      for (const auto& parameter : model.parameters) {
        types.push_back({Element::f32, device_dims(model, parameter)});
      }
      return types;
    case Group::states: {
      const std::vector<Type> weights = group_types(target, Group::weights);
      for (int s = 0; s < kernels::optimizers().at(target.optimizer).value.states; ++s) {
        types.insert(types.end(), weights.begin(), weights.end());
      }
      return types;
    }
    case Group::statistics:
      for (const auto& statistic : model.statistics) {
        types.push_back(floats_of(static_cast<std::int64_t>(statistic.size)));
      }
      return types;
    case Group::images:
      return {{floats ? Element::f32 : Element::u8,
               {target.images, model.image.channels, model.image.height, model.image.width}}};
    case Group::labels:
      return {{Element::s32, {target.images}}};
    case Group::mask:
      return {floats_of(target.images)};
    case Group::numbers:
      return {floats_of(number_count)};
    case Group::metrics:
      return {floats_of(metric_count)};
  }
  throw std::logic_error("a group without types");
}

Program write_program(Target target, const ProgramKind& kind) {
  target.masked = kind.masked;
  return StepWriter(target, kind).write();
}

}  // namespace dtrain::backend::xla
