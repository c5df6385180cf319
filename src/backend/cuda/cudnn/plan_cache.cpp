#include "backend/cuda/cudnn/plan_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"

namespace dtrain::backend::cuda {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* format_name = "dtrain plans 1";

std::string file_name(const std::string& device, std::size_t cudnn_version) {
  std::string plain;
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!plain.empty() && plain.back() != '-') {
      plain += '-';
    }
  }
  return fmt::format("{}{}cudnn-{}.json", plain, plain.ends_with('-') ? "" : "-", cudnn_version);
}

std::string key(const Policy& policy, const OperationGraph& graph) {
  return fmt::format("{}{} workspace {}: {}", precision_name(graph.element, policy),
                     policy.deterministic ? " deterministic" : "", policy.workspace_limit, graph.signature);
}

// Held while the file is read, merged and replaced, against other processes and other threads of this one.
class FileLock {
 public:
  explicit FileLock(const fs::path& file)
      : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)), held_(fd_ >= 0 && wait()) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool held() const { return held_; }

 private:
  bool wait() const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
      if (errno != EWOULDBLOCK) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  int fd_;
  bool held_;
};

}  // namespace

fs::path PlanCache::default_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) return fs::path(cache) / "dtrain" / "plans";
  const char* home = std::getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "dtrain" / "plans";
  return {};
}

PlanCache::PlanCache(fs::path directory, std::string device, std::size_t cudnn_version)
    : device_(std::move(device)), cudnn_version_(cudnn_version) {
  if (directory.empty()) return;
  file_ = directory / file_name(device_, cudnn_version_);
  tags_ = read();
}

std::optional<std::string> PlanCache::find(const Policy& policy, const OperationGraph& graph) const {
  const auto found = tags_.find(key(policy, graph));
  if (found == tags_.end()) return std::nullopt;
  return found->second;
}

void PlanCache::remember(const Policy& policy, const OperationGraph& graph, const std::string& tag) {
  tags_[key(policy, graph)] = tag;
  fresh_[key(policy, graph)] = tag;
}

void PlanCache::save() {
  if (file_.empty() || fresh_.empty()) return;
  try {
    fs::create_directories(file_.parent_path());
    const FileLock lock(file_.string() + ".lock");
    if (!lock.held()) throw environment_error("cannot lock " + file_.string(), "");
    Tags merged = read();
    for (const auto& [graph, tag] : fresh_) merged[graph] = tag;
    const json document{
        {"format", format_name}, {"device", device_}, {"cudnn", cudnn_version_}, {"plans", merged}};
    write_atomically(file_, document.dump(1) + "\n");
  } catch (const std::exception& error) {
    log_warning(fmt::format("plans are not remembered for the next run: {}", error.what()));
  }
  fresh_.clear();
}

// Empty for a file that is missing, damaged, or of another device, version or program.
PlanCache::Tags PlanCache::read() const {
  std::ifstream stream(file_, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const json document = json::parse(text, nullptr, false);
  Tags tags;
  if (!document.is_object() || document.value("format", json()) != format_name ||
      document.value("device", json()) != device_ || document.value("cudnn", json()) != cudnn_version_) {
    return tags;
  }
  const json plans = document.value("plans", json::object());
  if (!plans.is_object()) return tags;
  for (const auto& [graph, tag] : plans.items()) {
    if (tag.is_string()) tags[graph] = tag.get<std::string>();
  }
  return tags;
}

}  // namespace dtrain::backend::cuda
