#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Every entry point goes through here. To add one, write
//   cudaError_t cudaThing(...) { return cuda_call<"cudaThing">([&] { ...; return cudaSuccess; }); }
// and it is counted, can be delayed and made to fail, and keeps CUDA's rules of the last error.
namespace cuda_double {

class Entry {
 public:
  explicit Entry(std::string_view name) : name_(name) {}

  // Counts, waits, and gives the status of a fault that is due.
  std::optional<int> enter();

  const std::string& name() const { return name_; }
  int count() const { return count_.load(std::memory_order_relaxed); }

  void fail(int nth, int status);
  void slow(int milliseconds) { delay_ms_.store(milliseconds, std::memory_order_relaxed); }
  void forget();
  std::vector<int> faults_left();

 private:
  struct Fault {
    int nth;
    int status;
  };
  std::string name_;
  std::atomic<int> count_{0};
  std::atomic<int> delay_ms_{0};
  std::atomic<bool> armed_{false};
  std::mutex mutex_;  // taken only when armed, so that counting orders no threads
  std::vector<Fault> faults_;
};

Entry& entry_named(std::string_view name);
std::vector<Entry*> all_entries();

template <std::size_t size>
struct Name {
  constexpr Name(const char (&name)[size]) { std::copy_n(name, size, text); }
  char text[size];
};

template <Name name>
Entry& entry() {
  static Entry& entry = entry_named(name.text);
  return entry;
}

// A kind of work on a stream, whose execution is an entry as well.
struct Kind {
  const char* name;
  Entry* execution;
};
Kind kind_named(const char* name);

template <Name name>
const Kind* kind() {
  static constexpr Name text = name;
  static const Kind kind = kind_named(text.text);
  return &kind;
}

// The call that this thread is in, for the sites of what it makes.
std::string current_site();
void set_current(const Entry& entry);

// Remembers why; the status goes to the caller. The libraries' error strings tell the reason.
cudaError_t refuse(cudaError_t status, std::string reason);
cudnnStatus_t refuse(cudnnStatus_t status, std::string reason);
ncclResult_t refuse(ncclResult_t status, std::string reason);

enum Traits : unsigned {
  plain = 0,
  always = 1,         // done even when it is made to fail
  unsafe = 2,         // not allowed while a stream is captured, as the mode says
  independent = 4,    // needs no device and does not report earlier faults
  keeps_error = 8,    // does not touch the last error
  needs_nothing = 16  // works without a driver
};

struct Verdict {
  cudaError_t status = cudaSuccess;
  bool run = true;
};
Verdict before_cuda(Entry& entry, unsigned traits);
cudaError_t after_cuda(cudaError_t status, unsigned traits);

template <Name name, unsigned traits = plain, class Body>
cudaError_t cuda_call(Body&& body) {
  const Verdict verdict = before_cuda(entry<name>(), traits);
  const cudaError_t status = verdict.run ? body() : cudaSuccess;
  return after_cuda(verdict.status == cudaSuccess ? status : verdict.status, traits);
}

// The same for the other libraries: no last error, but a reason.
template <Name name, class Status, class Body>
Status library_call(Body&& body, bool release = false) {
  Entry& called = entry<name>();
  set_current(called);
  const std::optional<int> fault = called.enter();
  Status status{};
  if (!fault || release) status = body();
  if (fault) return refuse(static_cast<Status>(*fault), "made to fail by the test");
  return status;
}

}  // namespace cuda_double
