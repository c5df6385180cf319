#include "simt/fiber.hpp"

#include "simt/sanitizers.hpp"
#include "simt/switch_context.hpp"

#ifdef __x86_64__
// Saves what a call must preserve, and takes the other stack with what was saved there.
asm(R"(
.text
.globl simt_switch_stacks
.hidden simt_switch_stacks
.type simt_switch_stacks, @function
simt_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch_stacks, .-simt_switch_stacks
)");
#endif

namespace simt {

namespace {

constexpr std::size_t stack_bytes = 128 * 1024;

thread_local Fiber* starting = nullptr;

}  // namespace

struct Fiber::Context {
  std::unique_ptr<std::byte[]> memory = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  Registers own, owner;
  sanitizers::Stack own_stack = {memory.get(), stack_bytes, nullptr};
  sanitizers::Stack owner_stack;
  void* thread = sanitizers::make_thread();
  void* owner_thread = nullptr;
};

Fiber::Fiber(void (*entry)(void*), void* argument)
    : entry_(entry), argument_(argument), context_(std::make_unique<Context>()) {
  prepare_context(context_->own, context_->memory.get(), stack_bytes, &Fiber::start);
}

Fiber::~Fiber() { sanitizers::end_thread(context_->thread); }

void Fiber::start() {
  Fiber& self = *starting;
  sanitizers::enter({}, &self.context_->owner_stack);
  self.entry_(self.argument_);
}

void Fiber::resume() {
  Context& context = *context_;
  starting = this;
  context.owner_thread = sanitizers::current_thread();
  sanitizers::leave(context.owner_stack, context.own_stack);
  sanitizers::become(context.thread);
  switch_context(context.owner, context.own);
  sanitizers::enter(context.owner_stack, nullptr);
}

void Fiber::suspend() {
  Context& context = *context_;
  sanitizers::leave(context.own_stack, context.owner_stack);
  sanitizers::become(context.owner_thread);
  switch_context(context.own, context.owner);
  sanitizers::enter(context.own_stack, &context.owner_stack);
}

}  // namespace simt
