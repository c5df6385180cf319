#pragma once

#include <array>
#include <memory>
#include <optional>

#include "backend/cuda/drain.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/replica.hpp"
#include "kernels/cuda/step_block.hpp"

namespace dtrain::backend::cuda {

// Brings batches to the device on a stream of its own, from pinned memory, while the replica computes: one in
// use and one ahead. What a batch holds (floats, bytes or record numbers) decides what is copied.
class InputQueue {
 public:
  // Takes room for `max_batch` images of float pixels.
  InputQueue(DeviceMemory& memory, int max_batch);

  // Bytes of device memory that a queue takes.
  static std::size_t device_bytes(int max_batch);

  // The dataset that record numbers refer to; all in device memory.
  void refer_to(const std::uint8_t* pixels, const std::int32_t* labels) {
    dataset_pixels_ = pixels;
    dataset_labels_ = labels;
  }

  // Copies the batch; its memory is free again on return. False when two are waiting already.
  bool push(const Batch& batch, const Deadline& deadline);
  bool empty() const { return pushed_ == taken_; }
  void clear() { taken_ = pushed_; }

  // The oldest batch: `stream` waits for it, and `block` gets its addresses.
  void take(kernels::cuda::StepBlock& block, cudaStream_t stream);
  // `stream` has, with what is enqueued on it now, done with the batch taken last.
  void done(cudaStream_t stream);

 private:
  static constexpr std::size_t slots = 2;

  struct Slot {
    PinnedArray<std::byte> host;
    std::byte* device = nullptr;
    Event copied;
    Event used;
    bool in_flight = false;  // `copied` was recorded
    bool read = false;       // `used` was recorded
    kernels::cuda::StepBlock block;
  };

  std::size_t stage(Slot& slot, const Batch& batch);

  Stream stream_;
  std::array<Slot, slots> slots_;
  std::uint64_t pushed_ = 0;
  std::uint64_t taken_ = 0;
  const std::uint8_t* dataset_pixels_ = nullptr;
  const std::int32_t* dataset_labels_ = nullptr;
  Drain drain_{stream_};  // last: goes first
};

}  // namespace dtrain::backend::cuda
