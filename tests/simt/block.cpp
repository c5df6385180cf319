#include "simt/block.hpp"

#include <algorithm>
#include <bit>

#include "simt/sanitizers.hpp"

namespace simt {

namespace {

thread_local Block* living = nullptr;  // whose fibers are being started

std::string describe(const Thread& thread) {
  std::string text = "thread " + std::to_string(thread.index);
  if (thread.state == State::left) return text + " has left the kernel";
  if (thread.state == State::ready) return text + " goes on";
  text += thread.state == State::at_block           ? " waits at a barrier of the block"
          : thread.meeting == Meeting::warp_barrier ? " waits at a barrier of its warp"
          : thread.meeting == Meeting::ballot       ? " waits at a vote of its warp"
                                                    : " waits at a shuffle of its warp";
  const std::string file = thread.where.file_name();
  return text + " (" + file.substr(file.rfind('/') + 1) + ":" + std::to_string(thread.where.line()) + ")";
}

bool same_place(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

// A fiber's whole life: one body after the other.
void Block::live(void* thread) {
  Thread& self = *static_cast<Thread*>(thread);
  Block& block = *living;
  for (;;) {
    sanitizers::acquire(&block.tag_of_launch_);
    try {
      (*block.body_)();
    } catch (...) {
      block.failure_ = std::current_exception();
    }
    sanitizers::release(&block.tag_of_end_);
    self.state = State::left;
    ++block.left_;
    self.fiber->suspend();
  }
}

void Block::prepare(unsigned threads) {
  if (threads_.capacity() < max_threads) threads_.reserve(max_threads);  // fibers hold addresses
  while (threads_.size() < threads) {
    Thread& thread = threads_.emplace_back();
    thread.index = static_cast<unsigned>(threads_.size() - 1);
    thread.fiber = std::make_unique<Fiber>(&Block::live, &thread);
  }
  for (unsigned i = 0; i < threads; ++i) threads_[i].state = State::ready;
  size_ = threads;
  left_ = 0;
}

void Block::run(unsigned threads, const std::function<void()>& body, std::uint64_t seed) {
  prepare(threads);
  living = this;
  body_ = &body;
  random_ = seed;
  sanitizers::release(&tag_of_launch_);
  try {
    for (;;) {
      resume_ready();
      if (left_ == size_) break;
      bool released = release_block();
      for (unsigned first = 0; first < size_; first += warp) released = release_warp(first) || released;
      if (!released) report_stuck();
    }
  } catch (...) {
    drop();
    throw;
  }
  sanitizers::acquire(&tag_of_end_);
  body_ = nullptr;
}

// Fibers in the middle of a kernel cannot be used again.
void Block::drop() {
  threads_.clear();
  body_ = nullptr;
  running_ = nullptr;
  failure_ = nullptr;
}

void Block::resume_ready() {
  order_.clear();
  for (unsigned i = 0; i < size_; ++i) {
    if (threads_[i].state == State::ready) order_.push_back(i);
  }
  for (std::size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[next_random(random_) % i]);
  }
  for (const unsigned index : order_) {
    running_ = &threads_[index];
    here.thread.x = index;
    running_->fiber->resume();
    running_ = nullptr;
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void Block::wait(Thread& self, State state, const Where& where) {
  self.where = where;
  self.state = state;
  self.fiber->suspend();
}

unsigned Block::meet_block(bool vote, const Where& where) {
  Thread& self = *running_;
  self.meeting = Meeting::barrier;
  self.value = vote ? 1 : 0;
  char* tag = &tags_of_block_[self.barriers_of_block++ % 2];
  sanitizers::release(tag);
  wait(self, State::at_block, where);
  sanitizers::acquire(tag);
  return static_cast<unsigned>(self.result);
}

std::uint64_t Block::meet_warp(Meeting meeting, unsigned mask, std::uint64_t value, unsigned source,
                               const Where& where) {
  Thread& self = *running_;
  const unsigned lane = self.index % warp;
  if ((mask >> lane & 1U) == 0) {
    throw Error("simt: thread " + std::to_string(self.index) + " is not in the mask it names (line " +
                std::to_string(where.line()) + ")");
  }
  if (source >= warp || (mask >> source & 1U) == 0) {
    throw Error("simt: thread " + std::to_string(self.index) + " shuffles from lane " +
                std::to_string(source) + ", which takes no part (line " + std::to_string(where.line()) + ")");
  }
  self.meeting = meeting;
  self.mask = mask;
  self.source = source;
  self.value = value;
  if (meeting != Meeting::warp_barrier) {
    wait(self, State::at_warp, where);
    return self.result;
  }
  char* tag = &tags_of_warps_[self.index / warp][self.barriers_of_warp++ % 2];
  sanitizers::release(tag);
  wait(self, State::at_warp, where);
  sanitizers::acquire(tag);
  return 0;
}

bool Block::release_block() {
  unsigned votes = 0;
  for (unsigned i = 0; i < size_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state != State::at_block) return false;
    if (!same_place(thread.where, threads_[0].where)) {
      throw Error("simt: one barrier for the whole block, please: " + describe(threads_[0]) + ", " +
                  describe(thread));
    }
    votes += static_cast<unsigned>(thread.value);
  }
  for (unsigned i = 0; i < size_; ++i) {
    threads_[i].result = votes;
    threads_[i].state = State::ready;
  }
  return true;
}

bool Block::release_warp(unsigned first) {
  bool released = false;
  const unsigned end = std::min(first + warp, size_);
  for (unsigned i = first; i < end; ++i) {
    const Thread& one = threads_[i];
    if (one.state != State::at_warp) continue;
    bool complete = end - first == warp || one.mask >> (end - first) == 0;
    for (unsigned j = first; j < end && complete; ++j) {
      const Thread& other = threads_[j];
      if ((one.mask >> (j - first) & 1U) == 0) continue;
      complete = other.state == State::at_warp && other.mask == one.mask && other.meeting == one.meeting &&
                 same_place(other.where, one.where);
    }
    if (!complete) continue;
    answer_warp(first, one.mask);
    released = true;
  }
  return released;
}

void Block::answer_warp(unsigned first, unsigned mask) {
  std::uint64_t ballot = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (threads_[first + lane].value != 0) ballot |= std::uint64_t{1} << lane;
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    Thread& thread = threads_[first + static_cast<unsigned>(std::countr_zero(rest))];
    thread.result = thread.meeting == Meeting::ballot ? ballot : threads_[first + thread.source].value;
    thread.state = State::ready;
  }
}

void Block::report_stuck() const {
  const auto waits = [](const Thread& thread) { return thread.state != State::left; };
  const auto end = threads_.begin() + size_;
  const auto one = std::find_if(threads_.begin(), end, waits);
  const auto other = std::find_if(threads_.begin(), end, [&](const Thread& thread) {
    return thread.state != one->state || thread.mask != one->mask || !same_place(thread.where, one->where);
  });
  throw Error("simt: threads of a block wait for each other for ever: " + describe(*one) +
              (other == end ? ", for lanes that are not there" : ", " + describe(*other)));
}

}  // namespace simt
