#include "backend/xla/feed.hpp"

#include "backend/xla/step_program.hpp"
#include "config/plan.hpp"

namespace dtrain::backend::xla {

namespace {

// `count` values from `from`, followed by zeros up to `room`; as they are where there is no room left.
template <class T>
const T* padded(std::vector<T>& staging, const T* from, std::size_t count, std::size_t room) {
  if (count == room) return from;
  staging.assign(room, T{});
  std::copy_n(from, count, staging.begin());
  return staging.data();
}

}  // namespace

// The last device's share is the smallest.
bool Feed::pads(int images) const {
  return config::share_of(images, target_.replicas - 1, target_.replicas) != target_.images;
}

Fed Feed::bring(const Batch& batch) {
  Fed fed;
  fed.count = batch.count;
  fed.floats = batch.images != nullptr;
  const int devices = target_.replicas;
  fed.masked = pads(batch.count);
  int first = 0;
  for (int d = 0; d < devices; ++d) {
    const int count = config::share_of(batch.count, d, devices);
    auto& part = fed.parts.emplace_back();
    part.push_back(images(batch, d, first, count));
    part.push_back(labels(batch, d, first, count));
    if (fed.masked) part.push_back(mask(d, count));
    first += count;
  }
  return fed;
}

Buffer Feed::images(const Batch& batch, int device, int first, int count) {
  const Type type = group_types(target_, Group::images, batch.images != nullptr).front();
  const std::size_t size = target_.model->image.elements();
  const std::size_t begin = static_cast<std::size_t>(first) * size;
  const std::size_t used = static_cast<std::size_t>(count) * size;
  const std::size_t room = static_cast<std::size_t>(target_.images) * size;
  if (batch.images != nullptr) {
    return client_->upload(padded(values_, batch.images + begin, used, room), type, device);
  }
  if (batch.crops == nullptr) {
    return client_->upload(padded(pixels_, batch.pixels + begin, used, room), type, device);
  }
  pixels_.assign(room, 0);
  for (int i = 0; i < count; ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * size;
    kernels::crop_and_flip(batch.pixels + begin + offset, pixels_.data() + offset, batch.crops[first + i]);
  }
  return client_->upload(pixels_.data(), type, device);
}

Buffer Feed::labels(const Batch& batch, int device, int first, int count) {
  const std::int32_t* values = padded(labels_, batch.labels + first, static_cast<std::size_t>(count),
                                      static_cast<std::size_t>(target_.images));
  return client_->upload(values, group_types(target_, Group::labels).front(), device);
}

Buffer Feed::mask(int device, int count) {
  std::vector<float> real(static_cast<std::size_t>(target_.images), 0.0F);
  std::fill_n(real.begin(), count, 1.0F);
  return client_->upload(real.data(), group_types(target_, Group::mask).front(), device);
}

}  // namespace dtrain::backend::xla
