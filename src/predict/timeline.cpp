#include "predict/timeline.hpp"

#include "backend/buckets.hpp"
#include "model/flops.hpp"

namespace dtrain::predict {

std::vector<Bucket> buckets_of(const model::Model& model, double bucket_mb) {
  std::vector<backend::Slot> slots;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const auto& parameter = model.parameters[p];
    slots.push_back({static_cast<int>(p), {parameter.offset, parameter.size}});
  }
  const auto plan =
      backend::plan_buckets(model, slots, model.parameter_count, static_cast<std::size_t>(bucket_mb * 1e6));
  std::vector<double> done_before(model.layers.size() +
                                  1);  // share of backward when it comes down to layer i
  for (std::size_t layer = model.layers.size(); layer-- > 0;) {
    const bool reads_image = model.layers[layer].inputs.front() == model::image_input;
    const double cost = model::forward_flops(model.layers[layer]) * (reads_image ? 1.0 : 2.0);
    done_before[layer] = done_before[layer + 1] + cost;
  }
  std::vector<Bucket> buckets;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto first = static_cast<std::size_t>(plan.first_layer[b]);
    buckets.push_back({static_cast<double>(plan.buckets[b].size * sizeof(float)),
                       done_before[0] > 0.0 ? done_before[first] / done_before[0] : 1.0});
  }
  return buckets;
}

std::vector<Bucket> one_bucket(double bytes) { return {{.bytes = bytes, .ready = 1.0}}; }

double exposed(const std::vector<Bucket>& buckets, const std::vector<double>& seconds, double backward) {
  double free = 0.0;  // when the line is, after the begin of the pass
  for (std::size_t b = 0; b < buckets.size(); ++b)
    free = std::max(free, buckets[b].ready * backward) + seconds[b];
  return std::max(0.0, free - backward);
}

std::size_t first_of_queue(const std::vector<Bucket>& buckets, const std::vector<double>& seconds,
                           double backward) {
  std::size_t first = 0;
  double free = 0.0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (buckets[b].ready * backward > free) first = b;
    free = std::max(free, buckets[b].ready * backward) + seconds[b];
  }
  return first;
}

}  // namespace dtrain::predict
