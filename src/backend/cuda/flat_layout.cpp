#include "backend/cuda/flat_layout.hpp"

#include <algorithm>

namespace dtrain::backend::cuda {

namespace {

constexpr std::size_t slot_alignment = 64;  // elements: 128 bytes of the smallest

std::size_t aligned(std::size_t size) {
  return (size + slot_alignment - 1) / slot_alignment * slot_alignment;
}

FlatLayout::Entry weight_entry(const model::Layer& layer, const model::Parameter& parameter,
                               int image_channels) {
  const model::Shape& input = layer.input_shapes.front();
  const bool reads_image = layer.inputs.front() == model::image_input;
  FlatLayout::Entry entry;
  entry.weight = true;
  entry.outer = static_cast<std::size_t>(parameter.dims.front());
  entry.channels = static_cast<std::size_t>(input.channels);
  entry.positions = parameter.size / (entry.outer * entry.channels);
  entry.padded_channels = reads_image ? static_cast<std::size_t>(image_channels) : entry.channels;
  return entry;
}

}  // namespace

FlatLayout::FlatLayout(const model::Model& model, int image_channels)
    : model_(&model), image_channels_(image_channels) {
  for (const model::Parameter& parameter : model.parameters) {
    const model::Layer& layer = model.layers[static_cast<std::size_t>(parameter.layer)];
    const bool matrix = parameter.dims.size() > 1;
    Entry entry = matrix ? weight_entry(layer, parameter, image_channels) : Entry{.outer = parameter.size};
    entry.offset = size_;
    size_ += aligned(entry.size());
    entries_.push_back(entry);
  }
}

std::vector<Slot> FlatLayout::slots() const {
  std::vector<Slot> slots;
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    slots.push_back({static_cast<int>(p), {entries_[p].offset, entries_[p].size()}});
  }
  return slots;
}

const FlatLayout::Entry* FlatLayout::find(int layer, const std::string& suffix) const {
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    const model::Parameter& parameter = model_->parameters[p];
    if (parameter.layer == layer && parameter.name.ends_with(suffix)) return &entries_[p];
  }
  return nullptr;
}

void FlatLayout::to_flat(std::span<const float> canonical, std::span<float> flat) const {
  std::ranges::fill(flat, 0.0F);
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    const Entry& entry = entries_[p];
    const float* from = canonical.data() + model_->parameters[p].offset;
    for (std::size_t o = 0; o < entry.outer; ++o) {
      float* to = flat.data() + entry.offset + o * entry.positions * entry.padded_channels;
      for (std::size_t c = 0; c < entry.channels; ++c) {
        for (std::size_t i = 0; i < entry.positions; ++i) to[i * entry.padded_channels + c] = *from++;
      }
    }
  }
}

void FlatLayout::to_canonical(std::span<const float> flat, std::span<float> canonical) const {
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    const Entry& entry = entries_[p];
    float* to = canonical.data() + model_->parameters[p].offset;
    for (std::size_t o = 0; o < entry.outer; ++o) {
      const float* from = flat.data() + entry.offset + o * entry.positions * entry.padded_channels;
      for (std::size_t c = 0; c < entry.channels; ++c) {
        for (std::size_t i = 0; i < entry.positions; ++i) *to++ = from[i * entry.padded_channels + c];
      }
    }
  }
}

}  // namespace dtrain::backend::cuda
