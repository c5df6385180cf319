#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "double.hpp"
#include "signal.hpp"

namespace cuda_double {

// What a handle points to. Objects stay in memory until reset, so that a destroyed handle is recognised
// without a lock: a lock would order threads that the program has not ordered.
struct Object {
  Object(const char* what, std::string detail = "");
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  const char* kind;
  std::string site;
  std::atomic<bool> alive{true};
  bool owned_by_program = true;  // otherwise it is no leak
  std::uint64_t number;          // in order of making
  Object* next = nullptr;
};

template <class T>
bool live(const T* object) {
  return object != nullptr && object->alive.load(std::memory_order_relaxed);
}

// A point on a stream's time line.
struct Moment {
  Signal passed;
  std::chrono::steady_clock::time_point time;
  Moment* next = nullptr;  // all moments live until reset, for counting references would order threads

  void pass();
};

class OperationLog {
 public:
  void add(Operation operation);
  void append_to(std::vector<Operation>& all) const;

 private:
  mutable std::mutex mutex_;  // the stream's thread and the test's only
  std::vector<Operation> operations_;
};

struct Device {
  std::atomic<int> fault{0};  // cudaError_t that spoiled it
  std::atomic<bool> spoiling{false};
  std::string fault_reason;  // written before `fault`
  cudaStream_t legacy_stream = nullptr;
  cudaMemPool_t default_pool = nullptr;
  cudaMemPool_t pool = nullptr;
  std::vector<int> peers;  // whose memory it may use
};

struct Memory;
struct Captures;
struct NcclWorld;

// All state of the double between two resets.
class Machine {
 public:
  explicit Machine(const Setup& setup);
  ~Machine();  // ends all work

  // Takes no lock either; what a stream's thread may see lives until reset.
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    auto* object = new T(std::forward<Arguments>(arguments)...);
    constexpr bool stream = std::is_same_v<T, CUstream_st>;
    push<Object>(stream ? streams_ : objects_, object);
    return object;
  }
  std::vector<CUstream_st*> streams();  // live or not
  std::vector<Leak> leaks();

  Moment* moment();
  OperationLog* log();
  std::vector<Operation> operations();

  // The first fault counts: after it the device takes no more work.
  void spoil(int device, cudaError_t status, const std::string& reason);
  cudaError_t fault(int device) const;

  const Setup setup;
  const std::uint64_t epoch;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Captures> captures;
  std::unique_ptr<NcclWorld> nccl;
  std::atomic<std::uint64_t> next_order{0};

 private:
  // Of objects that know their next.
  template <class T>
  static void push(std::atomic<T*>& first, T* item) {
    item->next = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(item->next, item, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }

  std::atomic<Object*> objects_{nullptr};
  std::atomic<Object*> streams_{nullptr};
  std::atomic<Moment*> moments_{nullptr};
  std::mutex logs_mutex_;
  std::vector<std::unique_ptr<OperationLog>> logs_;
};

Machine& machine();

// What CUDA keeps a host thread.
struct ThreadState {
  std::uint64_t epoch = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  std::string refusal;  // the latest
  std::string refusal_site;
  int refusal_status = 0;
  std::string site = "nothing";
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
ThreadState& this_thread();

}  // namespace cuda_double
