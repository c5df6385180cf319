#include <fmt/format.h>

#include "double.hpp"
#include "entry.hpp"
#include "machine.hpp"
#include "nccl_world.hpp"

namespace cuda_double {

void fail(std::string_view call, int nth, cudaError_t status) { entry_named(call).fail(nth, status); }
void fail(std::string_view call, int nth, cudnnStatus_t status) { entry_named(call).fail(nth, status); }
void fail(std::string_view call, int nth, ncclResult_t status) { entry_named(call).fail(nth, status); }

void fail(std::string_view call, int nth) {
  if (call.starts_with("cudnn")) return fail(call, nth, CUDNN_STATUS_EXECUTION_FAILED);
  if (call.ends_with(" execution")) return fail(call, nth, cudaErrorIllegalAddress);
  if (call.starts_with("nccl")) return fail(call, nth, ncclSystemError);
  if (call.find("lloc") != std::string_view::npos) return fail(call, nth, cudaErrorMemoryAllocation);
  fail(call, nth, cudaErrorUnknown);
}

void slow(std::string_view call, std::chrono::milliseconds delay) {
  entry_named(call).slow(static_cast<int>(delay.count()));
}

std::vector<std::string> faults_left() {
  std::vector<std::string> left;
  for (Entry* entry : all_entries()) {
    for (const int nth : entry->faults_left()) left.push_back(fmt::format("{} #{}", entry->name(), nth));
  }
  return left;
}

std::map<std::string, int> calls() {
  std::map<std::string, int> counts;
  for (const Entry* entry : all_entries()) {
    if (entry->count() > 0) counts[entry->name()] = entry->count();
  }
  return counts;
}

void hang_nccl_rank(int rank) { machine().nccl->hang(rank); }
void release_nccl_ranks() { machine().nccl->release(); }

std::vector<Leak> leaks() { return machine().leaks(); }

std::string describe(const std::vector<Leak>& leaks) {
  std::string text;
  for (const Leak& leak : leaks) text += fmt::format("{} by {}\n", leak.kind, leak.site);
  return text;
}

std::vector<Operation> operations() { return machine().operations(); }

std::vector<Operation> operations(cudaStream_t stream) {
  std::vector<Operation> all = machine().operations();
  std::erase_if(all, [&](const Operation& operation) { return operation.stream != stream; });
  return all;
}

std::string last_refusal() { return this_thread().refusal; }

}  // namespace cuda_double
