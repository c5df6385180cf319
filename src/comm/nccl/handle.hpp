#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>

#include "backend/cuda/check.hpp"
#include "base/error.hpp"
#include "comm/nccl/retirement.hpp"

namespace dtrain::comm {

// One NCCL communicator, which may be aborted from another thread at any time: calls are made one after the
// other, and none once it has ended.
class NcclHandle {
 public:
  NcclHandle(int device, std::shared_ptr<Retirement> retirement)
      : device_(device), retirement_(std::move(retirement)) {}
  ~NcclHandle() { abort(); }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Where NCCL is to put the communicator.
  ncclComm_t* place() { return place_.get(); }
  const std::shared_ptr<Retirement>& retirement() const { return retirement_; }

  // Calls `work` with the communicator. Run error once it has ended.
  template <class Work>
  void use(const Work& work) {
    const std::lock_guard lock(mutex_);
    if (ended_) throw run_error("an NCCL communicator was used after its end", "see the group's first error");
    work(get());
  }

  // ncclInProgress while it does something in the background.
  ncclResult_t state() {
    ncclResult_t state = ncclSuccess;
    use([&](ncclComm_t communicator) { DTRAIN_CUDA(ncclCommGetAsyncError(communicator, &state)); });
    return state;
  }

  // Ends whatever it does, on the device too; returns before that is over.
  void abort() noexcept;
  // The regular end, as Retirement has it.
  std::shared_ptr<Ending> finish(const Deadline& deadline, const std::function<bool()>& hopeless);

 private:
  ncclComm_t get() const { return std::atomic_ref(*place_).load(std::memory_order_acquire); }

  int device_;
  std::shared_ptr<Retirement> retirement_;
  NcclPlace place_ = std::make_shared<ncclComm_t>(nullptr);
  std::mutex mutex_;
  bool ended_ = false;
};

// Calls between begin and end are one operation to NCCL.
class NcclGroupCall {
 public:
  NcclGroupCall() { DTRAIN_CUDA(ncclGroupStart()); }
  ~NcclGroupCall() {
    if (open_) DTRAIN_CUDA_QUIETLY(ncclGroupEnd());
  }
  NcclGroupCall(const NcclGroupCall&) = delete;
  NcclGroupCall& operator=(const NcclGroupCall&) = delete;
  void end() {
    open_ = false;
    DTRAIN_CUDA(ncclGroupEnd());
  }

 private:
  bool open_ = true;
};

// Memory of the current device.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size) : size_(size) {
    DTRAIN_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
  }
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) DTRAIN_CUDA_QUIETLY(cudaFree(data_));
  }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(DeviceArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dtrain::comm
