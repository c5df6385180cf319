#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "entry.hpp"
#include "machine.hpp"

namespace cuda_double {

struct Program;

// Thrown inside, and turned into a status and a message where the call ends.
struct Refusal {
  cudnnStatus_t status;
  std::string reason;
};

struct Content;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<std::shared_ptr<const Content>> descriptors;  // what was set, as it was when it was set
};

// What a descriptor says. Final contents do not change, and are shared by those that were given them.
struct Content {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool final = false;
  std::map<int, Attribute> attributes;
  const Program* program = nullptr;                     // of a graph, and of what was planned from it
  std::vector<std::shared_ptr<const Content>> offered;  // by heuristics

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  const Content& descriptor(cudnnBackendAttributeName_t name) const;
  template <class T>
  std::span<const T> values(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    return {reinterpret_cast<const T*>(found->second.bytes.data()),
            static_cast<std::size_t>(found->second.count)};
  }
  template <class T>
  T value(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    const auto all = values<T>(name);
    return all.empty() ? otherwise : all.front();
  }
  double real(cudnnBackendAttributeName_t name, double otherwise) const;  // given as float or double

  template <class T>
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t as, const std::vector<T>& values) {
    Attribute attribute{as, static_cast<std::int64_t>(values.size()), {}, {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    attribute.bytes.assign(bytes, bytes + values.size() * sizeof(T));
    attributes[name] = std::move(attribute);
  }
  void put(cudnnBackendAttributeName_t name, std::vector<std::shared_ptr<const Content>> contents);
};

struct DescriptorHandle : Object {
  explicit DescriptorHandle(cudnnBackendDescriptorType_t type);
  std::shared_ptr<Content> content = std::make_shared<Content>();
};

// What may be set and asked for.
struct Rule {
  cudnnBackendAttributeName_t name;
  const char* meaning;
  cudnnBackendAttributeType_t type;
  std::int64_t least;
  std::int64_t most;
  bool required = true;
  int descriptor = -1;  // the type of descriptors taken; -1 = any
  bool set = true;      // otherwise it can be asked for only
};
std::span<const Rule> rules_of(cudnnBackendDescriptorType_t type);  // none: not modelled
std::size_t bytes_of(cudnnBackendAttributeType_t type);
const char* name_of(cudnnBackendDescriptorType_t type);

// An entry point whose body throws refusals.
template <Name name, class Body>
cudnnStatus_t cudnn_call(Body&& body, bool release = false) {
  const auto guarded = [&] {
    try {
      body();
      return CUDNN_STATUS_SUCCESS;
    } catch (const Refusal& refusal) {
      return refuse(refusal.status, refusal.reason);
    }
  };
  return library_call<name, cudnnStatus_t>(guarded, release);
}

DescriptorHandle& handle_of(cudnnBackendDescriptor_t descriptor, const char* what = "the descriptor");

// Checks what a descriptor says as a whole, and works out what it offers.
void finalize(Content& content);
void finalize_engine(Content& content);
void finalize_configuration(Content& content);
void finalize_heuristics(Content& content);
void finalize_plan(Content& content);

}  // namespace cuda_double
