#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "comm/communicator.hpp"
#include "comm/ranks.hpp"
#include "cuda_double/double.hpp"

namespace dtrain::comm {

// A communicator of GPUs, and where it puts its ranks.
struct Kind {
  std::string name;
  LocalGroupMaker make;
  int ranks_per_device;  // 0: all on one
  bool keeps_order;      // sums are taken in rank order

  int device_of(int rank) const { return ranks_per_device == 0 ? 0 : rank / ranks_per_device; }
};
std::ostream& operator<<(std::ostream& out, const Kind& kind);

const Kind& nccl();
const Kind& cuda_local();            // on one GPU
const Kind& cuda_local_two_a_gpu();  // on as many as there must be

// What a rank has on its device: a replica's stream, and arrays in its memory.
class Gpu {
 public:
  explicit Gpu(int device);
  ~Gpu();  // synchronizes
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  backend::DeviceStream stream() const { return {device_, stream_.get()}; }
  cudaStream_t compute() const { return stream_.get(); }
  // Enqueues the values' copy, as a backward pass would enqueue gradients.
  std::span<float> upload(std::vector<float> values);
  // What the stream finds there after all that was enqueued.
  std::vector<float> download(std::span<const float> array);
  // An event that the stream passes when it has done what it was given.
  backend::DeviceToken mark();

 private:
  int device_;
  backend::cuda::Stream stream_;
  std::vector<float*> arrays_;
  std::vector<std::unique_ptr<std::vector<float>>> sources_;
  std::vector<backend::cuda::Event> marks_;
};

using GpuBody = std::function<void(Communicator&, Gpu&)>;

// Runs `body` as every rank of a new group, each on a thread of its own. Returns what each rank threw, "" for
// nothing.
std::vector<std::string> run_gpus(const Kind& kind, int ranks, const GpuBody& body);
// The same where no rank is expected to throw, and nothing is to be left on the devices.
void expect_gpus(const Kind& kind, int ranks, const GpuBody& body);

void expect_no_leaks();

// Sums of an unknown order differ in their last bits.
void expect_sum(const Kind& kind, std::span<const float> got, std::span<const float> expected);

}  // namespace dtrain::comm
