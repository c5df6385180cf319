#include "comm/nccl/messages.hpp"

namespace dtrain::comm {

namespace {

Awaited taken_by(int peer) { return {"message", "take a message", peer}; }
Awaited sent_by(int peer) { return {"message", "send a message", peer}; }

}  // namespace

void NcclMessages::send(std::span<const float> data, int to, const Deadline& deadline) {
  Outgoing& message = outgoing_[to];
  if (message.count > 0) {
    launch(deadline);
    endpoint_.wait_for(message.taken.get(), taken_by(to), deadline);
    message.count = 0;
  }
  if (!data.empty()) hold(message, data, deadline);
}

void NcclMessages::receive(std::span<float> data, int from, const Deadline& deadline) {
  if (data.empty()) return;
  endpoint_.follow(nullptr);
  const auto take = [&](ncclComm_t communicator) {
    DTRAIN_CUDA(ncclRecv(data.data(), data.size(), ncclFloat32, from, communicator, endpoint_.stream()));
  };
  launch(waiting(), take, sent_by(from), deadline);
  endpoint_.wait_for_stream(sent_by(from), deadline);
}

void NcclMessages::launch(const Deadline& deadline) {
  const Waiting messages = waiting();
  if (!messages.empty()) launch(messages, nullptr, taken_by(messages.front().first), deadline);
}

void NcclMessages::hold(Outgoing& message, std::span<const float> data, const Deadline& deadline) {
  if (!message.taken) message.taken = backend::cuda::make_event();
  if (message.copy.size() < data.size()) message.copy = DeviceArray<float>(data.size());
  endpoint_.follow(nullptr);
  DTRAIN_CUDA(cudaMemcpyAsync(message.copy.data(), data.data(), data.size_bytes(), cudaMemcpyDeviceToDevice,
                              endpoint_.stream()));
  endpoint_.wait_for_stream(awaited("all-reduce"), deadline);
  message.count = data.size();
  message.launched = false;
}

NcclMessages::Waiting NcclMessages::waiting() {
  Waiting waiting;
  for (auto& [to, message] : outgoing_) {
    if (message.count > 0 && !message.launched) waiting.emplace_back(to, &message);
  }
  return waiting;
}

// What is sent and received together may go in both directions at once.
void NcclMessages::launch(const Waiting& waiting, const std::function<void(ncclComm_t)>& receive,
                          const Awaited& what, const Deadline& deadline) {
  const auto work = [&](ncclComm_t communicator) {
    NcclGroupCall together;
    for (const auto& [to, message] : waiting) {
      DTRAIN_CUDA(
          ncclSend(message->copy.data(), message->count, ncclFloat32, to, communicator, endpoint_.stream()));
    }
    if (receive) receive(communicator);
    together.end();
  };
  endpoint_.enqueue(work, what, deadline);
  for (const auto& [to, message] : waiting) {
    DTRAIN_CUDA(cudaEventRecord(message->taken.get(), endpoint_.stream()));
    message->launched = true;
  }
}

}  // namespace dtrain::comm
