#include "comm/mpi/runtime.hpp"

#include <thread>

#include "base/error.hpp"

namespace dtrain::comm::mpi {

Runtime& Runtime::get() {
  static Runtime runtime;
  return runtime;
}

Runtime::Runtime() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw environment_error("this MPI does not let several threads call it (MPI_THREAD_MULTIPLE)",
                            "use an MPI that was built with threads, or --comm gloo");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

void Runtime::finish() {
  if (alone_ || finished_.exchange(true)) return;
  MPI_Finalize();
}

void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw run_error(fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))),
                  "see what became of the other processes");
}

void wait_all(std::span<MPI_Request> requests, const Deadline& deadline, const std::atomic<bool>& stop,
              bool busy_cores) {
  constexpr int tests = 64;  // between looks at the clock
  constexpr auto patience = std::chrono::microseconds(50);
  const TimePoint begin = Clock::now();
  for (;;) {
    for (int i = 0; i < tests; ++i) {
      int done = 0;
      require(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
      if (done != 0) return;
      if (busy_cores) std::this_thread::yield();
    }
    if (stop) throw run_error("ended by this process", "see why it gave up");
    const TimePoint now = Clock::now();
    if (now >= deadline.at()) {
      throw run_error(fmt::format("nothing came within {:g} s", deadline.allowed().count()),
                      "see what the other processes were doing");
    }
    if (now < begin + patience) continue;
    if (busy_cores) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace dtrain::comm::mpi
