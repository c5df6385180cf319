#include "model/part.hpp"

#include <algorithm>

namespace dtrain::model {

std::vector<float> take_part(std::span<const float> whole, const std::vector<Piece>& pieces,
                             std::size_t size) {
  std::vector<float> part(size, 0.0F);
  for (const Piece& piece : pieces) {
    std::ranges::copy(whole.subspan(piece.whole_offset, piece.size), part.data() + piece.part_offset);
  }
  return part;
}

void lay_over(std::span<const float> part, const std::vector<Piece>& pieces, std::span<float> whole) {
  for (const Piece& piece : pieces) {
    std::ranges::copy(part.subspan(piece.part_offset, piece.size), whole.data() + piece.whole_offset);
  }
}

void put_part(std::span<const float> part, const std::vector<Piece>& pieces, std::span<float> whole) {
  for (const Piece& piece : pieces) {
    if (!piece.given) continue;
    std::ranges::copy(part.subspan(piece.part_offset, piece.size), whole.data() + piece.whole_offset);
  }
}

}  // namespace dtrain::model
