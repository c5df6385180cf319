#pragma once

#include <vector>

#include "backend/replica.hpp"
#include "backend/xla/client.hpp"
#include "backend/xla/graph.hpp"

namespace dtrain::backend::xla {

// A batch on the devices, each with its share.
struct Fed {
  std::vector<std::vector<Buffer>> parts;  // by device: images, labels and, where one is not full, mask
  int count = 0;                           // real images of all devices
  bool masked = false;                     // on all devices alike
  bool floats = false;
};

// Divides batches among devices and brings them there.
class Feed {
 public:
  Feed(const Client& client, const Target& target) : client_(&client), target_(target) {}

  // Whether some device gets less of so many images than its program takes.
  bool pads(int images) const;
  // The batch's arrays may change once this returns.
  Fed bring(const Batch& batch);

 private:
  Buffer images(const Batch& batch, int device, int first, int count);
  Buffer labels(const Batch& batch, int device, int first, int count);
  Buffer mask(int device, int count);

  const Client* client_;
  Target target_;
  std::vector<std::uint8_t> pixels_;  // a share with crops cut or with padding
  std::vector<float> values_;
  std::vector<std::int32_t> labels_;
};

}  // namespace dtrain::backend::xla
