#include "predict/sweep.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/options.hpp"
#include "report/archive.hpp"

namespace dtrain::predict {

namespace {

using report::Json;
using report::Loader;
using report::Need;
using report::Range;

constexpr const char* schema = "dtrain.allreduce/1";
constexpr double longest_us = 3.6e9;          // an hour
constexpr double most_bytes_a_second = 1e13;  // no memory comes near
constexpr double slack = 1.1;                 // of a median against its interval's ends
constexpr int most_workers = 65'536;
constexpr const char* advice = "give a file that dtrain allreduce --json wrote, or measure again";

Json parse(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw data_error(path.string() + ": is a folder, not a file", advice);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw data_error(path.string() + ": cannot be read", advice);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    throw data_error(path.string() + ": is not JSON", advice);
  }
}

void load_size(Loader& entry, Sweep::Size& size) {
  bool right = false;
  double microseconds = 0.0;
  double low = 0.0;
  double high = longest_us;
  entry.value("bytes", size.bytes, Need::required, Range::positive);
  entry.value("algorithm", size.algorithm, Need::optional);
  entry.value("values_ok", right, Need::optional);
  if (!right)
    entry.fail(entry.path_of("values_ok"), "says that sums were wrong, so their times mean nothing");
  entry.object("time_us", [&](auto& time) {
    time.value("median", microseconds, Need::required, Range::positive);
    time.value("low", low, Need::optional, Range::not_negative);
    time.value("high", high, Need::optional, Range::positive);
  });
  const auto impossible = [&](const std::string& why) {
    entry.fail(entry.path_of("time_us.median"), fmt::format("is {:g}, {}", microseconds, why));
  };
  if (microseconds > longest_us) impossible("more than an hour");
  if (microseconds * slack < low || microseconds > high * slack)
    impossible(fmt::format("outside its own interval, {:g} to {:g}", low, high));
  if (static_cast<double>(size.bytes) > most_bytes_a_second * 1e-6 * microseconds)
    impossible(fmt::format("and no machine exchanges {} bytes in that", size.bytes));
  size.seconds = microseconds * 1e-6;
}

}  // namespace

Sweep read_sweep(const std::filesystem::path& path) {
  const Json root = parse(path);
  Sweep sweep{
      .file = path.string(), .communicator = {}, .compress = "none", .workers = 1, .ranks = 1, .sizes = {}};
  Loader loader(root, sweep.file, "");
  const Json* found = loader.find("schema", Need::required);
  if (*found != schema) loader.fail("schema", Loader::wrong_type(*found, fmt::format("\"{}\"", schema)));
  loader.value("communicator", sweep.communicator);
  loader.value("compress", sweep.compress, Need::optional);
  loader.value("workers", sweep.workers, Need::required, Range::positive);
  loader.value("ranks", sweep.ranks, Need::required, Range::positive);
  if (sweep.ranks < sweep.workers) loader.fail("ranks", "is less than workers");
  if (sweep.workers > most_workers)
    loader.fail("workers", fmt::format("is {}, more than {}", sweep.workers, most_workers));
  if (sweep.ranks / sweep.workers > config::max_replicas)
    loader.fail("ranks", fmt::format("is {}, more than {} in a process", sweep.ranks, config::max_replicas));
  loader.list("sizes", 0, [&](Loader& entry, std::size_t) { load_size(entry, sweep.sizes.emplace_back()); });
  if (sweep.sizes.empty()) loader.fail("sizes", "is empty");
  return sweep;
}

}  // namespace dtrain::predict
