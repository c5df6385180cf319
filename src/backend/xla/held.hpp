#pragma once

#include <map>
#include <span>
#include <vector>

#include "backend/xla/client.hpp"
#include "backend/xla/step_program.hpp"

namespace dtrain::backend::xla {

// What stays on the devices between steps: weights, optimizer state, running values, gradients. All are the
// same on every device but running values, and gradients before they are summed.
class Held {
 public:
  Held(const Client& client, const Target& target);

  const std::vector<Buffer>& of(Group group, int device) const;
  // Takes the place of what a program has overwritten.
  void replace(Group group, int device, std::vector<Buffer> fresh);

  // Values in canonical order, the same to every device. Of states, the index-th.
  void import(Group group, int index, std::span<const float> canonical);
  void export_from(int device, Group group, int index, std::span<float> canonical) const;
  std::size_t bytes(Group group) const;  // on each device

 private:
  std::size_t first_of(Group group, int index) const;
  struct Part {
    std::size_t offset;
    std::size_t size;
  };
  Part part(Group group, std::size_t k) const;

  const Client* client_;
  Target target_;
  std::map<Group, std::vector<std::vector<Buffer>>> buffers_;  // by device
};

}  // namespace dtrain::backend::xla
