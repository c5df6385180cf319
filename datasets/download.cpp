#include "datasets/download.hpp"

#include <curl/curl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include "base/error.hpp"

namespace dtrain::datasets {

namespace {

struct Transfer {
  const Download& config;
  int fd;
  std::uint64_t resumed_from;
  std::uint64_t received = 0;
  int write_error = 0;
  bool too_long = false;
  bool stalled = false;
  TimePoint last_byte = Clock::now();
  std::exception_ptr thrown = nullptr;
};

std::size_t write_part(const char* data, std::size_t, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.resumed_from + transfer.received + count > transfer.config.bytes) {
    transfer.too_long = true;
    return 0;
  }
  for (std::size_t done = 0; done < count;) {
    const ssize_t written = ::write(transfer.fd, data + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      transfer.write_error = errno;
      return 0;
    }
    done += static_cast<std::size_t>(written);
  }
  transfer.received += count;
  transfer.last_byte = Clock::now();
  return count;
}

// Called by libcurl at least once a second, whether bytes come or not.
int report(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (transfer.config.stop != nullptr && *transfer.config.stop) throw Interrupted();
    transfer.stalled = Clock::now() - transfer.last_byte > transfer.config.stall;
    if (transfer.stalled) return 1;
    if (transfer.config.progress) transfer.config.progress(transfer.resumed_from + transfer.received);
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 1;
  }
  return 0;
}

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

Handle make_handle(Transfer& transfer, char* error_text) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  Handle handle(initialised == CURLE_OK ? curl_easy_init() : nullptr, &curl_easy_cleanup);
  if (!handle) throw environment_error("libcurl does not start", transfer.config.advice);
  CURL* curl = handle.get();
  const auto stall_ms = static_cast<long>(transfer.config.stall.count() * 1e3);
  curl_easy_setopt(curl, CURLOPT_URL, transfer.config.url.c_str());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "dtrain");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, stall_ms);
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.resumed_from));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &write_part);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &report);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  return handle;
}

[[noreturn]] void fail(const Transfer& transfer, CURLcode code, const char* error_text) {
  const Download& config = transfer.config;
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.write_error != 0) {
    throw environment_error(
        fmt::format("{}: cannot write: {}", config.part.string(), std::strerror(transfer.write_error)),
        "make room on this disk or give another folder; the next fetch goes on from here");
  }
  if (transfer.too_long) {
    throw data_error(fmt::format("{}: sends more than the expected {} bytes", config.url, config.bytes),
                     config.advice);
  }
  std::string reason = *error_text != '\0' ? error_text : curl_easy_strerror(code);
  if (transfer.stalled) reason = fmt::format("no byte came for {:g} s", config.stall.count());
  const std::uint64_t have = transfer.resumed_from + transfer.received;
  const std::string resume =
      have > 0 ? fmt::format("fetch again to go on from byte {}; ", have) : std::string();
  throw environment_error(fmt::format("cannot download {}: {}", config.url, reason), resume + config.advice);
}

// False when the server cannot send from the middle on.
bool attempt(Transfer& transfer) {
  char error_text[CURL_ERROR_SIZE] = "";
  const Handle handle = make_handle(transfer, error_text);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code == CURLE_OK) return true;
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  const bool no_ranges = code == CURLE_RANGE_ERROR || status == 416;
  if (no_ranges && transfer.resumed_from > 0 && transfer.received == 0) return false;
  fail(transfer, code, error_text);
}

void truncate(int fd) {
  if (::ftruncate(fd, 0) != 0) {
    throw environment_error(fmt::format("cannot empty the unfinished download: {}", std::strerror(errno)),
                            "remove the .part file and fetch again");
  }
}

}  // namespace

DownloadResult download(const Download& config, int fd) {
  struct stat status = {};
  ::fstat(fd, &status);
  auto have = static_cast<std::uint64_t>(status.st_size);
  if (have > config.bytes) {
    truncate(fd);
    have = 0;
  }
  if (have == config.bytes) return {.resumed_from = have, .bytes_received = 0};

  Transfer transfer{.config = config, .fd = fd, .resumed_from = have};
  if (!attempt(transfer)) {
    truncate(fd);
    transfer.resumed_from = 0;
    attempt(transfer);
  }
  return {.resumed_from = transfer.resumed_from, .bytes_received = transfer.received};
}

}  // namespace dtrain::datasets
