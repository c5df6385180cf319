#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simt/fiber.hpp"
#include "simt/simt.hpp"

namespace simt {

// What a thread of a block does.
enum class State { ready, at_block, at_warp, left };

struct Thread {
  std::unique_ptr<Fiber> fiber;
  unsigned index = 0;
  State state = State::left;

  // The meeting it waits at, what it brings, and afterwards what it gets.
  Where where;
  Meeting meeting = Meeting::barrier;
  unsigned mask = 0;
  unsigned source = 0;
  std::uint64_t value = 0;
  std::uint64_t result = 0;
  unsigned barriers_of_block = 0;  // passed
  unsigned barriers_of_warp = 0;
};

// Runs the threads of one block as fibers, which are kept for the next block. One an OS thread.
class Block {
 public:
  void run(unsigned threads, const std::function<void()>& body, std::uint64_t seed);

  unsigned meet_block(bool vote, const Where& where);
  std::uint64_t meet_warp(Meeting meeting, unsigned mask, std::uint64_t value, unsigned source,
                          const Where& where);
  bool is_running() const { return body_ != nullptr; }

 private:
  static void live(void* thread);
  void prepare(unsigned threads);
  void resume_ready();
  bool release_block();
  bool release_warp(unsigned first);
  void answer_warp(unsigned first, unsigned mask);
  [[noreturn]] void report_stuck() const;
  void drop();
  void wait(Thread& self, State state, const Where& where);

  std::vector<Thread> threads_;  // as many as the largest block so far
  std::vector<unsigned> order_;
  unsigned size_ = 0;  // of the block that runs
  unsigned left_ = 0;
  Thread* running_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr failure_;
  std::uint64_t random_ = 0;

  // What ThreadSanitizer takes barriers for: odd and even ones, so that a thread that is one ahead does not
  // seem to be in order with those that have yet to leave.
  char tag_of_launch_ = 0;
  char tag_of_end_ = 0;
  char tags_of_block_[2] = {};
  char tags_of_warps_[max_threads / warp][2] = {};
};

}  // namespace simt
