#pragma once

// What the sanitizers want to know about stacks. Nothing, in a build without them.
//
// The scheduler is compiled without ThreadSanitizer, so that its own bookkeeping, which runs on all fibers,
// is no race; SIMT_THREAD_SANITIZER then says that the program has it.

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace simt::sanitizers {

// A stack as AddressSanitizer sees it.
struct Stack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake = nullptr;
};

inline void leave([[maybe_unused]] Stack& from, [[maybe_unused]] const Stack& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.bytes);
#endif
}

// `from` receives the bounds of the stack that control came from.
inline void enter([[maybe_unused]] const Stack& now, [[maybe_unused]] Stack* from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(now.fake, from != nullptr ? &from->bottom : nullptr,
                                  from != nullptr ? &from->bytes : nullptr);
#endif
}

#ifdef SIMT_THREAD_SANITIZER
inline void* current_thread() { return __tsan_get_current_fiber(); }
inline void* make_thread() { return __tsan_create_fiber(0); }
// What the thread did so far comes before what its owner does from now on.
inline void end_thread(void* thread) {
  void* owner = current_thread();
  __tsan_switch_to_fiber(thread, 0);
  __tsan_switch_to_fiber(owner, 0);
  __tsan_destroy_fiber(thread);
}
inline void become(void* thread) { __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync); }
inline void release(void* tag) { __tsan_release(tag); }
inline void acquire(void* tag) { __tsan_acquire(tag); }
#else
inline void* current_thread() { return nullptr; }
inline void* make_thread() { return nullptr; }
inline void end_thread(void*) {}
inline void become(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
#endif

}  // namespace simt::sanitizers
