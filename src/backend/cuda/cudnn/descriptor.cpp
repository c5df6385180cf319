#include "backend/cuda/cudnn/descriptor.hpp"

#include <array>
#include <utility>

namespace dtrain::backend::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  DTRAIN_CUDA(cudnnBackendCreateDescriptor(type, &raw_));
}

Descriptor::Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(raw_, other.raw_);
  return *this;
}

Descriptor::~Descriptor() {
  if (raw_ != nullptr) DTRAIN_CUDA_QUIETLY(cudnnBackendDestroyDescriptor(raw_));
}

Descriptor& Descriptor::set(Name name, const Descriptor& value) {
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
}

Descriptor& Descriptor::set(Name name, std::span<const Descriptor> values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor& value : values) raw.push_back(value.raw_);
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
}

Descriptor& Descriptor::finalize() {
  DTRAIN_CUDA(cudnnBackendFinalize(raw_));
  return *this;
}

std::vector<Descriptor> Descriptor::get_descriptors(Name name, cudnnBackendDescriptorType_t type) const {
  return get_descriptors(name, type, count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR));
}

std::vector<Descriptor> Descriptor::get_descriptors(Name name, cudnnBackendDescriptorType_t type,
                                                    std::int64_t most) const {
  std::vector<Descriptor> values;
  if (most == 0) return values;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i) raw.push_back(values.emplace_back(type).raw_);
  const std::int64_t got = get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data());
  while (static_cast<std::int64_t>(values.size()) > got) values.pop_back();
  return values;
}

Descriptor& Descriptor::set_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                                const void* values) {
  DTRAIN_CUDA(cudnnBackendSetAttribute(raw_, name, type, count, values));
  return *this;
}

std::int64_t Descriptor::count(Name name, cudnnBackendAttributeType_t type) const {
  std::int64_t elements = 0;
  DTRAIN_CUDA(cudnnBackendGetAttribute(raw_, name, type, 0, &elements, nullptr));
  return elements;
}

std::int64_t Descriptor::get_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                                 void* values) const {
  std::int64_t elements = 0;
  DTRAIN_CUDA(cudnnBackendGetAttribute(raw_, name, type, count, &elements, values));
  return elements;
}

std::string last_cudnn_message() {
  std::array<char, 2048> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return text.data();
}

}  // namespace dtrain::backend::cuda
