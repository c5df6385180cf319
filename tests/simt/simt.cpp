#include "simt/simt.hpp"

#include <sstream>

#include "simt/block.hpp"

namespace simt {

constinit thread_local Position here = {};

namespace {

std::atomic<std::uint64_t> seed = 1;

Block& own_block() {
  static thread_local Block block;
  return block;
}

Block& running_block(const Where& where) {
  if (!own_block().is_running()) {
    throw Error("simt: threads of an independent launch meet (" + std::string(where.function_name()) +
                ", line " + std::to_string(where.line()) + "): use launch");
  }
  return own_block();
}

}  // namespace

void set_seed(std::uint64_t value) { seed = value; }

Directions directions() {
  const std::uint64_t value = seed;
  return {(value & 1U) == 0, (value & 2U) != 0};
}

void run_cooperative(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  const Position before = here;
  here = {{0, 0, 0}, {0, 0, 0}, {threads, 1, 1}, {blocks, 1, 1}};
  const bool down = directions().blocks_down;
  try {
    for (unsigned block = 0; block < blocks; ++block) {
      here.block.x = down ? blocks - 1 - block : block;
      own_block().run(threads, body, seed + 0x100000000U * block);
    }
  } catch (...) {
    here = before;
    throw;
  }
  here = before;
}

unsigned meet_block(bool vote, const Where& where) { return running_block(where).meet_block(vote, where); }

std::uint64_t meet_warp(Meeting meeting, unsigned mask, std::uint64_t value, unsigned source,
                        const Where& where) {
  return running_block(where).meet_warp(meeting, mask, value, source, where);
}

void misaligned(const void* address, std::size_t bytes) {
  std::ostringstream text;
  text << "simt: " << bytes << " bytes at " << address << ", which is not a multiple of that";
  throw Error(text.str());
}

}  // namespace simt
