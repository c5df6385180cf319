#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/model.hpp"

namespace dtrain::model {

// Elements that a part's canonical buffer and the whole's have in common.
struct Piece {
  std::size_t whole_offset = 0;
  std::size_t part_offset = 0;
  std::size_t size = 0;
  bool given = true;  // to the whole, by this part; false: another part holds the same and gives it
};

// What one rank holds of a model, as a model of its own. The image of a part is what it is fed with.
struct Part {
  std::shared_ptr<const Model> model;
  std::vector<Piece> parameters;
  std::vector<Piece> statistics;
};

// The values of a part, of `size` elements, out of those of the whole.
std::vector<float> take_part(std::span<const float> whole, const std::vector<Piece>& pieces,
                             std::size_t size);
// Puts what this part gives where it belongs in the whole.
void put_part(std::span<const float> part, const std::vector<Piece>& pieces, std::span<float> whole);
// The same with all that this part holds: the whole as its rank has it.
void lay_over(std::span<const float> part, const std::vector<Piece>& pieces, std::span<float> whole);

}  // namespace dtrain::model
