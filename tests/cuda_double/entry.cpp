#include "entry.hpp"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "capture.hpp"
#include "machine.hpp"

namespace cuda_double {
namespace {

struct Entries {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> by_name;
};

Entries& entries() {
  static auto* all = new Entries;  // outlives every thread
  return *all;
}

template <class Status>
Status note(Status status, std::string reason) {
  ThreadState& thread = this_thread();
  thread.refusal = std::move(reason);
  thread.refusal_site = thread.site;
  thread.refusal_status = static_cast<int>(status);
  return status;
}

std::optional<cudaError_t> missing_driver(unsigned traits) {
  const Setup& setup = machine().setup;
  if ((traits & needs_nothing) != 0) return std::nullopt;
  if (!setup.driver) return cudaErrorInsufficientDriver;
  if (setup.devices == 0) return cudaErrorNoDevice;
  return std::nullopt;
}

}  // namespace

std::optional<int> Entry::enter() {
  const int number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (const int delay = delay_ms_.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  }
  if (!armed_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto due = std::find_if(faults_.begin(), faults_.end(), [&](Fault f) { return f.nth == number; });
  if (due == faults_.end()) return std::nullopt;
  const int status = due->status;
  faults_.erase(due);
  return status;
}

void Entry::fail(int nth, int status) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({nth, status});
  armed_.store(true, std::memory_order_relaxed);
}

void Entry::forget() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  armed_.store(false, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  delay_ms_.store(0, std::memory_order_relaxed);
}

std::vector<int> Entry::faults_left() {
  const std::lock_guard lock(mutex_);
  std::vector<int> left;
  for (const Fault fault : faults_) left.push_back(fault.nth);
  return left;
}

Entry& entry_named(std::string_view name) {
  const std::lock_guard lock(entries().mutex);
  auto found = entries().by_name.find(name);
  if (found == entries().by_name.end()) {
    found = entries().by_name.emplace(std::string(name), std::make_unique<Entry>(name)).first;
  }
  return *found->second;
}

std::vector<Entry*> all_entries() {
  const std::lock_guard lock(entries().mutex);
  std::vector<Entry*> all;
  for (const auto& [name, entry] : entries().by_name) all.push_back(entry.get());
  return all;
}

Kind kind_named(const char* name) { return {name, &entry_named(std::string(name) + " execution")}; }

void set_current(const Entry& entry) {
  this_thread().site = fmt::format("{} #{}", entry.name(), entry.count() + 1);
}

std::string current_site() { return this_thread().site; }

cudaError_t refuse(cudaError_t status, std::string reason) { return note(status, std::move(reason)); }
cudnnStatus_t refuse(cudnnStatus_t status, std::string reason) { return note(status, std::move(reason)); }
ncclResult_t refuse(ncclResult_t status, std::string reason) { return note(status, std::move(reason)); }

Verdict before_cuda(Entry& entry, unsigned traits) {
  set_current(entry);
  const bool release = (traits & always) != 0;
  if (const auto injected = entry.enter()) {
    return {refuse(static_cast<cudaError_t>(*injected), "made to fail by the test"), release};
  }
  if (const auto missing = missing_driver(traits)) return {*missing, false};
  if ((traits & (independent | needs_nothing)) == 0) {
    const cudaError_t spoiled = machine().fault(this_thread().device);
    if (spoiled != cudaSuccess) {
      const std::string& reason =
          machine().devices[static_cast<std::size_t>(this_thread().device)]->fault_reason;
      return {refuse(spoiled, reason), release};
    }
  }
  if ((traits & unsafe) != 0) {
    const cudaError_t forbidden = refuse_unsafe_call(entry.name());
    if (forbidden != cudaSuccess) return {forbidden, false};
  }
  return {};
}

cudaError_t after_cuda(cudaError_t status, unsigned traits) {
  if (status != cudaSuccess && (traits & keeps_error) == 0) this_thread().last_error = status;
  return status;
}

}  // namespace cuda_double
