#include "machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "nccl_world.hpp"
#include "stream.hpp"

namespace cuda_double {
namespace {

std::atomic<Machine*>& current_machine() {
  static std::atomic<Machine*> current{nullptr};
  return current;
}

std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> epoch{0};
  return ++epoch;
}

template <class T>
void destroy(std::atomic<T*>& first) {
  for (T* item = first.load(std::memory_order_acquire); item != nullptr;)
    delete std::exchange(item, item->next);
}

void start(const Setup& setup) {
  auto* fresh = new Machine(setup);
  current_machine().store(fresh, std::memory_order_release);
  make_default_pools(*fresh);
}

}  // namespace

Object::Object(const char* what, std::string detail) : kind(what), site(current_site()) {
  static std::atomic<std::uint64_t> next_number{0};
  number = next_number.fetch_add(1, std::memory_order_relaxed);
  if (!detail.empty()) site += " (" + detail + ")";
}

void Moment::pass() {
  time = std::chrono::steady_clock::now();
  passed.raise();
}

void OperationLog::add(Operation operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
}

void OperationLog::append_to(std::vector<Operation>& all) const {
  const std::lock_guard lock(mutex_);
  all.insert(all.end(), operations_.begin(), operations_.end());
}

Machine::Machine(const Setup& asked)
    : setup(asked),
      epoch(next_epoch()),
      memory(std::make_unique<Memory>()),
      captures(std::make_unique<Captures>()),
      nccl(std::make_unique<NcclWorld>()) {
  for (int device = 0; device < setup.devices; ++device) devices.push_back(std::make_unique<Device>());
}

Machine::~Machine() {
  nccl->abort_all();
  const auto running = streams();
  for (auto* stream : running) stream->worker.finish();
  for (auto* stream : running) stream->worker.wait_for_end();
  destroy(objects_);
  destroy(streams_);
  destroy(moments_);
}

std::vector<Leak> Machine::leaks() {
  std::vector<const Object*> left;
  for (const auto* first : {&objects_, &streams_}) {
    for (const Object* object = first->load(std::memory_order_acquire); object != nullptr;
         object = object->next) {
      if (live(object) && object->owned_by_program) left.push_back(object);
    }
  }
  std::sort(left.begin(), left.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  std::vector<Leak> found;
  for (const Object* object : left) found.push_back({object->kind, object->site});
  return found;
}

std::vector<CUstream_st*> Machine::streams() {
  std::vector<CUstream_st*> all;
  for (Object* object = streams_.load(std::memory_order_acquire); object != nullptr; object = object->next) {
    all.push_back(static_cast<CUstream_st*>(object));
  }
  return all;
}

Moment* Machine::moment() {
  auto* fresh = new Moment;
  push(moments_, fresh);
  return fresh;
}

OperationLog* Machine::log() {
  const std::lock_guard lock(logs_mutex_);
  logs_.push_back(std::make_unique<OperationLog>());
  return logs_.back().get();
}

std::vector<Operation> Machine::operations() {
  std::vector<Operation> all;
  const std::lock_guard lock(logs_mutex_);
  for (const auto& log : logs_) log->append_to(all);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  return all;
}

void Machine::spoil(int device, cudaError_t status, const std::string& reason) {
  Device& spoiled = *devices[static_cast<std::size_t>(device)];
  if (spoiled.spoiling.exchange(true)) return;
  spoiled.fault_reason = reason;
  spoiled.fault.store(status, std::memory_order_release);
}

cudaError_t Machine::fault(int device) const {
  const std::atomic<int>& fault = devices[static_cast<std::size_t>(device)]->fault;
  if (fault.load(std::memory_order_relaxed) == cudaSuccess) return cudaSuccess;
  return static_cast<cudaError_t>(fault.load(std::memory_order_acquire));
}

Machine& machine() {
  Machine* current = current_machine().load(std::memory_order_acquire);
  if (current != nullptr) return *current;
  static std::mutex starting;
  const std::lock_guard lock(starting);
  if (current_machine().load(std::memory_order_acquire) == nullptr) start({});
  return *current_machine().load(std::memory_order_acquire);
}

void reset(const Setup& setup) {
  delete current_machine().load(std::memory_order_acquire);  // its threads see it until they have ended
  for (Entry* entry : all_entries()) entry->forget();
  start(setup);
}

ThreadState& this_thread() {
  thread_local ThreadState state;
  if (state.epoch != machine().epoch) {
    state = {};
    state.epoch = machine().epoch;
  }
  return state;
}

}  // namespace cuda_double
