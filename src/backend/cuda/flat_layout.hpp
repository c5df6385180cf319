#pragma once

#include <span>
#include <vector>

#include "backend/replica.hpp"
#include "model/model.hpp"

namespace dtrain::backend::cuda {

// Where parameters lie in the flat buffers, and in which order: channels closest, as NHWC wants it.
// Convolution weights are (out, kh, kw, in), dense weights (out, height, width, channels of the input).
// Layers that read the image see it with `image_channels`, of which those beyond the model's hold zeros, and
// so do the weights for them. Slots begin at multiples of 64 elements.
class FlatLayout {
 public:
  struct Entry {
    std::size_t offset = 0;  // elements
    // A canonical (outer, channels, positions) lies as (outer, positions, padded_channels).
    std::size_t outer = 1;
    std::size_t channels = 1;
    std::size_t positions = 1;
    std::size_t padded_channels = 1;
    bool weight = false;  // of a convolution or dense layer: computed with as elements
    std::size_t size() const { return outer * positions * padded_channels; }
  };

  FlatLayout(const model::Model& model, int image_channels);

  std::size_t size() const { return size_; }  // elements of a flat buffer
  int image_channels() const { return image_channels_; }
  const std::vector<Entry>& entries() const { return entries_; }  // by parameter
  std::vector<Slot> slots() const;

  // The parameter of a layer by the end of its name ("_w", "_b", "_gamma", "_beta"); null where it has none.
  const Entry* find(int layer, const std::string& suffix) const;

  void to_flat(std::span<const float> canonical, std::span<float> flat) const;
  void to_canonical(std::span<const float> flat, std::span<float> canonical) const;

 private:
  const model::Model* model_;
  int image_channels_;
  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace dtrain::backend::cuda
