#pragma once

#include <cstddef>
#include <memory>

namespace simt {

// A place in a program with a stack of its own, which its owner resumes and which gives control back by
// suspend. Stays on the OS thread that made it. Known to AddressSanitizer and ThreadSanitizer; to the latter,
// switching orders nothing.
class Fiber {
 public:
  // Will call entry(argument) when first resumed. `entry` never returns and lets no exception out.
  Fiber(void (*entry)(void*), void* argument);
  ~Fiber();  // the fiber is not running; what lies on its stack is not destroyed
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();
  void suspend();  // on the fiber itself

 private:
  struct Context;
  static void start();

  void (*entry_)(void*);
  void* argument_;
  std::unique_ptr<Context> context_;
};

}  // namespace simt
