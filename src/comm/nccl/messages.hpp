#pragma once

#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "comm/nccl/endpoint.hpp"

namespace dtrain::comm {

// Messages between two ranks. NCCL sends only to a rank that receives, and nothing else of the communicator
// happens until it does; so a message is copied, and leaves together with the next one that this rank
// receives, or before whatever else it does next. Called within attempt.
class NcclMessages {
 public:
  explicit NcclMessages(NcclEndpoint& endpoint) : endpoint_(endpoint) {}

  // Waits while the last message to this rank has not been taken.
  void send(std::span<const float> data, int to, const Deadline& deadline);
  void receive(std::span<float> data, int from, const Deadline& deadline);
  // Lets go what waits to be sent.
  void launch(const Deadline& deadline);

 private:
  // One that its receiver may not have taken yet.
  struct Outgoing {
    DeviceArray<float> copy;
    std::size_t count = 0;  // 0: there is none
    bool launched = false;
    backend::cuda::Event taken;
  };
  using Waiting = std::vector<std::pair<int, Outgoing*>>;

  void hold(Outgoing& message, std::span<const float> data, const Deadline& deadline);
  Waiting waiting();
  void launch(const Waiting& waiting, const std::function<void(ncclComm_t)>& receive, const Awaited& what,
              const Deadline& deadline);

  NcclEndpoint& endpoint_;
  std::map<int, Outgoing> outgoing_;  // by receiver
};

}  // namespace dtrain::comm
