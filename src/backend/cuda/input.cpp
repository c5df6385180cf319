#include "backend/cuda/input.hpp"

#include <cstring>

#include "base/error.hpp"

namespace dtrain::backend::cuda {

namespace {

using datasets::pixels_per_image;

constexpr std::size_t part_alignment = 256;  // bytes

std::size_t aligned(std::size_t bytes) {
  return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

// Pixels as floats, the largest a batch can be, and what goes with them.
std::size_t slot_bytes(int max_batch) {
  const auto count = static_cast<std::size_t>(max_batch);
  return aligned(count * pixels_per_image * sizeof(float)) + aligned(count * sizeof(std::int32_t)) +
         aligned(count * sizeof(kernels::Crop));
}

// Lays arrays one behind the other into a slot; each has the same place on both sides.
class Parcel {
 public:
  Parcel(std::byte* host, const std::byte* device) : host_(host), device_(device) {}

  // The array's address on the device; null for none.
  template <class T>
  const T* add(const T* values, std::size_t count) {
    if (values == nullptr) return nullptr;
    std::memcpy(host_ + bytes_, values, count * sizeof(T));
    const auto* there = static_cast<const T*>(static_cast<const void*>(device_ + bytes_));
    bytes_ += aligned(count * sizeof(T));
    return there;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* host_;
  const std::byte* device_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::size_t InputQueue::device_bytes(int max_batch) {
  return slots * DeviceMemory::padded(slot_bytes(max_batch));
}

InputQueue::InputQueue(DeviceMemory& memory, int max_batch) : stream_(make_stream()) {
  for (Slot& slot : slots_) {
    slot.host = PinnedArray<std::byte>(slot_bytes(max_batch));
    slot.device = static_cast<std::byte*>(memory.take(slot_bytes(max_batch)));
    slot.copied = make_event();
    slot.used = make_event();
  }
}

bool InputQueue::push(const Batch& batch, const Deadline& deadline) {
  if (pushed_ - taken_ == slots) return false;
  Slot& slot = slots_[pushed_ % slots];
  if (slot.in_flight && !wait_for(slot.copied.get(), deadline)) {
    throw run_error(fmt::format("a batch has not reached the GPU for {:g} s", deadline.allowed().count()),
                    "look at `dtrain info` and the system's log for a failed GPU");
  }
  const std::size_t bytes = stage(slot, batch);
  if (slot.read) DTRAIN_CUDA(cudaStreamWaitEvent(stream_.get(), slot.used.get(), 0));
  DTRAIN_CUDA(cudaMemcpyAsync(slot.device, slot.host.data(), bytes, cudaMemcpyHostToDevice, stream_.get()));
  DTRAIN_CUDA(cudaEventRecord(slot.copied.get(), stream_.get()));
  slot.in_flight = true;
  ++pushed_;
  return true;
}

std::size_t InputQueue::stage(Slot& slot, const Batch& batch) {
  const auto count = static_cast<std::size_t>(batch.count);
  Parcel parcel(slot.host.data(), slot.device);
  kernels::cuda::StepBlock& block = slot.block;
  block = {};
  if (batch.records != nullptr) {
    block.records = parcel.add(batch.records, count);
    block.pixels = dataset_pixels_;
    block.labels = dataset_labels_;
  } else {
    block.images = parcel.add(batch.images, count * pixels_per_image);
    block.pixels = parcel.add(batch.pixels, count * pixels_per_image);
    block.labels = parcel.add(batch.labels, count);
  }
  block.crops = parcel.add(batch.crops, count);
  return parcel.bytes();
}

void InputQueue::take(kernels::cuda::StepBlock& block, cudaStream_t stream) {
  const Slot& slot = slots_[taken_++ % slots];
  DTRAIN_CUDA(cudaStreamWaitEvent(stream, slot.copied.get(), 0));
  block.images = slot.block.images;
  block.pixels = slot.block.pixels;
  block.records = slot.block.records;
  block.labels = slot.block.labels;
  block.crops = slot.block.crops;
}

void InputQueue::done(cudaStream_t stream) {
  Slot& slot = slots_[(taken_ - 1) % slots];
  DTRAIN_CUDA(cudaEventRecord(slot.used.get(), stream));
  slot.read = true;
}

}  // namespace dtrain::backend::cuda
