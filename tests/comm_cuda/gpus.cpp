#include "gpus.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "comm/cuda_local/group.hpp"
#include "comm/nccl/group.hpp"

namespace dtrain::comm {

using backend::cuda::OnDevice;

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const Kind& nccl() {
  static const Kind kind{"nccl", make_nccl_group, 1, false};
  return kind;
}

const Kind& cuda_local() {
  static const Kind kind{"cuda_local", make_cuda_local_group, 0, true};
  return kind;
}

const Kind& cuda_local_two_a_gpu() {
  static const Kind kind{"cuda_local_two_a_gpu", make_cuda_local_group, 2, true};
  return kind;
}

Gpu::Gpu(int device) : device_(device) {
  const OnDevice current(device);
  stream_ = backend::cuda::make_stream();
}

Gpu::~Gpu() {
  DTRAIN_CUDA_QUIETLY(cudaStreamSynchronize(compute()));
  for (float* array : arrays_) DTRAIN_CUDA_QUIETLY(cudaFree(array));
}

std::span<float> Gpu::upload(std::vector<float> values) {
  const OnDevice current(device_);
  const std::size_t bytes = std::max<std::size_t>(values.size(), 1) * sizeof(float);
  float* array = nullptr;
  DTRAIN_CUDA(cudaMalloc(reinterpret_cast<void**>(&array), bytes));
  arrays_.push_back(array);
  const auto& source = *sources_.emplace_back(std::make_unique<std::vector<float>>(std::move(values)));
  if (!source.empty()) {
    DTRAIN_CUDA(cudaMemcpyAsync(array, source.data(), source.size() * sizeof(float), cudaMemcpyHostToDevice,
                                compute()));
  }
  return {array, source.size()};
}

std::vector<float> Gpu::download(std::span<const float> array) {
  std::vector<float> values(array.size());
  if (array.empty()) return values;
  DTRAIN_CUDA(
      cudaMemcpyAsync(values.data(), array.data(), array.size_bytes(), cudaMemcpyDeviceToHost, compute()));
  DTRAIN_CUDA(cudaStreamSynchronize(compute()));
  return values;
}

backend::DeviceToken Gpu::mark() {
  const OnDevice current(device_);
  marks_.push_back(backend::cuda::make_event());
  DTRAIN_CUDA(cudaEventRecord(marks_.back().get(), compute()));
  return {marks_.back().get()};
}

namespace {

// As the ranks of a world do it: nobody begins before all have joined, and one that fails tells the others.
void run_rank(LocalGroup& group, const Kind& kind, int rank, std::barrier<>& joined,
              std::atomic<bool>& broken, const GpuBody& body) {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<Communicator> communicator;
  std::exception_ptr failure;
  try {
    gpu = std::make_unique<Gpu>(kind.device_of(rank));
    communicator = group.join(rank, gpu->stream());
  } catch (...) {
    failure = std::current_exception();
    broken = true;
  }
  joined.arrive_and_wait();
  if (failure) std::rethrow_exception(failure);
  if (broken) return;
  try {
    body(*communicator, *gpu);
  } catch (const std::exception& error) {
    communicator->abort(error.what());
    throw;
  }
}

}  // namespace

std::vector<std::string> run_gpus(const Kind& kind, int ranks, const GpuBody& body) {
  const auto group = kind.make({.size = ranks, .oversubscribed = true});
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::barrier<> joined(ranks);
  std::atomic<bool> broken{false};
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(*group, kind, rank, joined, broken, body);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void expect_gpus(const Kind& kind, int ranks, const GpuBody& body) {
  const auto errors = run_gpus(kind, ranks, body);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank << " of " << errors.size();
  }
  expect_no_leaks();
}

void expect_no_leaks() {
  const auto leaks = cuda_double::leaks();
  EXPECT_TRUE(leaks.empty()) << cuda_double::describe(leaks);
}

void expect_sum(const Kind& kind, std::span<const float> got, std::span<const float> expected) {
  ASSERT_EQ(got.size(), expected.size());
  if (kind.keeps_order) {
    EXPECT_TRUE(same_bits(got, expected));
    return;
  }
  constexpr float rounding = 1e-3F;  // of values below 128
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], rounding) << i;
}

}  // namespace dtrain::comm
