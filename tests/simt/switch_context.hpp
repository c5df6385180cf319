#pragma once

#include <cstddef>
#include <cstdint>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace simt {

// The registers of a suspended fiber. On x86-64 they lie on its stack, and a switch is a few instructions;
// elsewhere it is swapcontext, with its system call.
#ifdef __x86_64__

struct Registers {
  void* stack = nullptr;
};

extern "C" void simt_switch_stacks(void** save, void* load);

inline void switch_context(Registers& from, Registers& to) { simt_switch_stacks(&from.stack, to.stack); }

inline void prepare_context(Registers& registers, std::byte* stack, std::size_t bytes, void (*start)()) {
  const auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) / 16 * 16;
  auto* slots = reinterpret_cast<void**>(top);
  *--slots = nullptr;  // where `start` would return to
  *--slots = reinterpret_cast<void*>(start);
  for (int saved = 0; saved < 6; ++saved) *--slots = nullptr;
  registers.stack = slots;
}

#else

struct Registers {
  ucontext_t context = {};
};

inline void switch_context(Registers& from, Registers& to) { swapcontext(&from.context, &to.context); }

inline void prepare_context(Registers& registers, std::byte* stack, std::size_t bytes, void (*start)()) {
  getcontext(&registers.context);
  registers.context.uc_stack.ss_sp = stack;
  registers.context.uc_stack.ss_size = bytes;
  makecontext(&registers.context, start, 0);
}

#endif

}  // namespace simt
