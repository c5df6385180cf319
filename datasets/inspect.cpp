#include "datasets/inspect.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

namespace dtrain::datasets {

namespace {

SplitSummary summarise(const Dataset& dataset) {
  SplitSummary summary;
  summary.records = dataset.size();
  for (std::size_t i = 0; i < dataset.size(); ++i) ++summary.labels[dataset.label(i)];
  summary.checksum = dataset.checksum();
  return summary;
}

}  // namespace

Inspection inspect(const Cifar10& data) {
  Inspection inspection;
  inspection.name = data.train->name();
  inspection.synthetic = data.synthetic;
  inspection.note = data.note;
  inspection.files = data.files;
  inspection.class_names = data.class_names;
  inspection.train = summarise(*data.train);
  Hash hash;
  data.train->add_to(hash);
  if (data.test) {
    inspection.test = summarise(*data.test);
    data.test->add_to(hash);
  }
  inspection.checksum = hash.hex();
  return inspection;
}

Picture picture(const Cifar10& data, std::size_t index) {
  const std::size_t train = data.train->size();
  const std::size_t total = train + (data.test ? data.test->size() : 0);
  if (index >= total) {
    throw usage_error(fmt::format("record {} of {}: there are {} records", index, data.train->name(), total),
                      fmt::format("give a number from 0 to {}", total - 1));
  }
  Picture out;
  out.test = index >= train;
  const Dataset& dataset = out.test ? *data.test : *data.train;
  const std::size_t record = out.test ? index - train : index;
  const auto pixels = dataset.pixels(record);
  constexpr std::size_t plane = pixels_per_image / image_channels;
  out.label = dataset.label(record);
  out.ppm = fmt::format("P6\n{} {}\n255\n", image_size, image_size);
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t c = 0; c < image_channels; ++c) out.ppm += static_cast<char>(pixels[c * plane + i]);
  }
  return out;
}

}  // namespace dtrain::datasets
