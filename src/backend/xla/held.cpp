#include "backend/xla/held.hpp"

#include "backend/xla/device_layout.hpp"
#include "base/error.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::backend::xla {

namespace {

constexpr Seconds copy_patience{300.0};

}  // namespace

Held::Held(const Client& client, const Target& target) : client_(&client), target_(target) {
  for (const Group group : {Group::weights, Group::states, Group::statistics, Group::gradients}) {
    buffers_[group].resize(static_cast<std::size_t>(target.replicas));
  }
  const model::Model& model = *target.model;
  const std::vector<float> zeros(model.parameter_count, 0.0F);
  import(Group::weights, 0, zeros);
  import(Group::gradients, 0, zeros);
  for (int s = 0; s < kernels::optimizers().at(target.optimizer).value.states; ++s) {
    import(Group::states, s, zeros);
  }
  import(Group::statistics, 0, model::initial_statistics(model));
}

const std::vector<Buffer>& Held::of(Group group, int device) const {
  return buffers_.at(group)[static_cast<std::size_t>(device)];
}

void Held::replace(Group group, int device, std::vector<Buffer> fresh) {
  buffers_.at(group)[static_cast<std::size_t>(device)] = std::move(fresh);
}

std::size_t Held::first_of(Group group, int index) const {
  return group == Group::states ? static_cast<std::size_t>(index) * target_.model->parameters.size() : 0;
}

Held::Part Held::part(Group group, std::size_t k) const {
  if (group == Group::statistics) {
    return {target_.model->statistics[k].offset, target_.model->statistics[k].size};
  }
  return {target_.model->parameters[k].offset, target_.model->parameters[k].size};
}

void Held::import(Group group, int index, std::span<const float> canonical) {
  const model::Model& model = *target_.model;
  const std::vector<Type> types = group_types(target_, group);
  const std::size_t first = first_of(group, index);
  const std::size_t count = group == Group::statistics ? model.statistics.size() : model.parameters.size();
  std::vector<float> ordered;
  for (auto& buffers : buffers_.at(group)) buffers.resize(types.size());
  for (std::size_t k = 0; k < count; ++k) {
    const Part where = part(group, k);
    std::span<const float> values = canonical.subspan(where.offset, where.size);
    if (group != Group::statistics) {
      ordered.resize(where.size);
      to_device_order(model, model.parameters[k], values, ordered);
      values = ordered;
    }
    for (int d = 0; d < target_.replicas; ++d) {
      buffers_.at(group)[static_cast<std::size_t>(d)][first + k] =
          client_->upload(values.data(), types[first + k], d);
    }
  }
}

void Held::export_from(int device, Group group, int index, std::span<float> canonical) const {
  const model::Model& model = *target_.model;
  const std::size_t first = first_of(group, index);
  const std::size_t count = group == Group::statistics ? model.statistics.size() : model.parameters.size();
  std::vector<std::vector<float>> values(count);
  const auto completion = std::make_shared<Completion>("a copy of weights or state to the host");
  for (std::size_t k = 0; k < count; ++k) {
    values[k].resize(part(group, k).size);
    client_->download(of(group, device)[first + k].get(), values[k], completion);
  }
  completion->wait(Deadline::in(copy_patience));
  for (std::size_t k = 0; k < count; ++k) {
    const std::span<float> to = canonical.subspan(part(group, k).offset, part(group, k).size);
    if (group == Group::statistics) {
      std::ranges::copy(values[k], to.begin());
    } else {
      to_canonical_order(model, model.parameters[k], values[k], to);
    }
  }
}

std::size_t Held::bytes(Group group) const {
  std::size_t floats = 0;
  for (const Type& type : group_types(target_, group)) {
    std::size_t elements = 1;
    for (const std::int64_t dim : type.dims) elements *= static_cast<std::size_t>(dim);
    floats += elements;
  }
  return floats * sizeof(float);
}

}  // namespace dtrain::backend::xla
