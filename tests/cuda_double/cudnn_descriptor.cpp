#include "cudnn_descriptor.hpp"

#include <fmt/format.h>

#include <cstring>

#include "entry.hpp"

namespace cuda_double {
namespace {

const Rule& rule_for(const Content& content, cudnnBackendAttributeName_t name) {
  for (const Rule& rule : rules_of(content.type)) {
    if (rule.name == name) return rule;
  }
  throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("a {} has no attribute {} that the double models",
                                                    name_of(content.type), static_cast<int>(name))};
}

// Scale factors may be given in either type.
bool fits(cudnnBackendAttributeType_t wanted, cudnnBackendAttributeType_t given) {
  return wanted == given || (wanted == CUDNN_TYPE_DOUBLE && given == CUDNN_TYPE_FLOAT);
}

void check(const Content& content, const Rule& rule, cudnnBackendAttributeType_t type) {
  if (fits(rule.type, type)) return;
  throw Refusal{CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                fmt::format("'{}' of a {} is of attribute type {}, not {}", rule.meaning,
                            name_of(content.type), static_cast<int>(rule.type), static_cast<int>(type))};
}

std::shared_ptr<const Content> taken(const Content& by, const Rule& rule,
                                     cudnnBackendDescriptor_t descriptor) {
  const DescriptorHandle& given = handle_of(descriptor, rule.meaning);
  const std::string where = fmt::format("'{}' of a {}", rule.meaning, name_of(by.type));
  if (rule.descriptor >= 0 && rule.descriptor != static_cast<int>(given.content->type)) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                  fmt::format("{} cannot be a {}", where, name_of(given.content->type))};
  }
  if (!given.content->final) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, fmt::format("{} is not finalized", where)};
  }
  return given.content;
}

void set(Content& content, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values) {
  if (content.final) throw Refusal{CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is finalized already"};
  const Rule& rule = rule_for(content, name);
  check(content, rule, type);
  const std::string where = fmt::format("'{}' of a {}", rule.meaning, name_of(content.type));
  if (!rule.set) throw Refusal{CUDNN_STATUS_BAD_PARAM, where + " can be asked for, not set"};
  if (count < rule.least || count > rule.most) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM,
                  fmt::format("{} takes {} to {} elements, not {}", where, rule.least, rule.most, count)};
  }
  if (values == nullptr && count > 0) throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, where + " is null"};
  Attribute attribute{type, count, {}, {}};
  const auto* bytes = static_cast<const std::byte*>(values);
  attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* descriptors = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i)
      attribute.descriptors.push_back(taken(content, rule, descriptors[i]));
  }
  content.attributes[name] = std::move(attribute);
}

// Descriptors are handed out by filling those of the caller.
void hand_out(const Attribute& attribute, const Rule& rule, std::int64_t count, void* values) {
  auto* descriptors = static_cast<cudnnBackendDescriptor_t*>(values);
  for (std::int64_t i = 0; i < count; ++i) {
    DescriptorHandle& to = handle_of(descriptors[i], rule.meaning);
    const auto& found = attribute.descriptors[static_cast<std::size_t>(i)];
    if (to.content->type != found->type) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                    fmt::format("'{}' is handed out in a {}", rule.meaning, name_of(found->type))};
    }
    to.content = std::make_shared<Content>(*found);
  }
}

void get(const Content& content, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t requested, std::int64_t* count, void* values) {
  if (!content.final) throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the descriptor is not finalized"};
  const Rule& rule = rule_for(content, name);
  check(content, rule, type);
  if (requested < 0) throw Refusal{CUDNN_STATUS_BAD_PARAM, "fewer than no elements requested"};
  const auto found = content.attributes.find(name);
  const Attribute none{type, 0, {}, {}};
  const Attribute& attribute = found == content.attributes.end() ? none : found->second;
  if (count != nullptr) *count = attribute.count;
  if (requested == 0) return;
  const std::int64_t given = std::min(requested, attribute.count);
  if (given > 0 && values == nullptr)
    throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the values"};
  if (count != nullptr) *count = given;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    hand_out(attribute, rule, given, values);
  } else if (given > 0) {
    std::memcpy(values, attribute.bytes.data(), static_cast<std::size_t>(given) * bytes_of(type));
  }
}

void require_all(const Content& content) {
  for (const Rule& rule : rules_of(content.type)) {
    if (!rule.required || content.has(rule.name)) continue;
    throw Refusal{CUDNN_STATUS_BAD_PARAM,
                  fmt::format("'{}' of a {} is missing", rule.meaning, name_of(content.type))};
  }
}

}  // namespace

DescriptorHandle::DescriptorHandle(cudnnBackendDescriptorType_t type)
    : Object("cudnn descriptor", name_of(type)) {
  content->type = type;
}

DescriptorHandle& handle_of(cudnnBackendDescriptor_t descriptor, const char* what) {
  auto* handle = static_cast<DescriptorHandle*>(descriptor);
  if (live(handle)) return *handle;
  throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("'{}' is no live descriptor", what)};
}

const Content& Content::descriptor(cudnnBackendAttributeName_t name) const {
  return *attributes.at(name).descriptors.at(0);
}

double Content::real(cudnnBackendAttributeName_t name, double otherwise) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return otherwise;
  return found->second.type == CUDNN_TYPE_FLOAT ? static_cast<double>(value<float>(name))
                                                : value<double>(name);
}

void Content::put(cudnnBackendAttributeName_t name, std::vector<std::shared_ptr<const Content>> contents) {
  const auto count = static_cast<std::int64_t>(contents.size());
  attributes[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, count, {}, std::move(contents)};
}

}  // namespace cuda_double

using namespace cuda_double;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return cudnn_call<"cudnnBackendCreateDescriptor">([&] {
    if (descriptor == nullptr)
      throw Refusal{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the descriptor"};
    if (rules_of(type).empty()) {
      throw Refusal{CUDNN_STATUS_NOT_SUPPORTED,
                    fmt::format("the double does not model descriptors of type {}", static_cast<int>(type))};
    }
    *descriptor = machine().make<DescriptorHandle>(type);
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn_call<"cudnnBackendDestroyDescriptor">(
      [&] {
        DescriptorHandle& handle = handle_of(descriptor);
        handle.alive = false;
        handle.content.reset();
      },
      true);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return cudnn_call<"cudnnBackendSetAttribute">(
      [&] { set(*handle_of(descriptor).content, name, type, count, values); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* values) {
  return cudnn_call<"cudnnBackendGetAttribute">(
      [&] { get(*handle_of(descriptor).content, name, type, requested, count, values); });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return cudnn_call<"cudnnBackendFinalize">([&] {
    Content& content = *handle_of(descriptor).content;
    if (content.final) throw Refusal{CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already"};
    require_all(content);
    finalize(content);
    content.final = true;
  });
}
