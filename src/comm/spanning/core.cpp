#include "comm/spanning/core.hpp"

#include <algorithm>

namespace dtrain::comm {

namespace {

// A rank that has a core to itself waits a moment before it gives it up, but not so long that the lane, which
// may be on the same core, would miss it.
Patience patience_of(const SpanningConfig& config) {
  return config.oversubscribed
             ? Patience{}
             : Patience{.spin = std::chrono::microseconds(5), .yield = std::chrono::microseconds(200)};
}

// Looks now and then whether the lane has failed, which does not tell.
constexpr auto between_looks = std::chrono::milliseconds(20);

template <class Ready>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                const Deadline& deadline, const Ready& ready) {
  while (!ready()) {
    if (deadline.passed()) return false;
    changed.wait_until(lock, std::min<TimePoint>(deadline.at(), Clock::now() + between_looks));
  }
  return true;
}

}  // namespace

SpanningCore::SpanningCore(std::unique_ptr<Exchange> exchange, SpanningConfig config, std::vector<int> names)
    : exchange_(std::move(exchange)),
      config_(std::move(config)),
      names_(std::move(names)),
      placement_(config_.process_of),
      local_ranks_(placement_.counts.at(static_cast<std::size_t>(exchange_->rank()))),
      first_rank_(placement_.first.at(static_cast<std::size_t>(exchange_->rank()))),
      compressor_(make_compressor(config_.compress, config_.seed)),
      posted_(static_cast<std::size_t>(local_ranks_)),
      being_read_(placement_.counts.size()),
      lane_(patience_of(config_)) {}

SpanningCore::~SpanningCore() {
  if (lane_.failed()) exchange_->abort("the group has failed");
}

void SpanningCore::post(int local, const Request& request) {
  check();
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    forget_done();
    const std::uint64_t number = posted_[static_cast<std::size_t>(local)]++;
    if (number == first_kept_ + collectives_.size()) {
      collectives_.push_back({.requests = std::vector<Request>(posted_.size()), .came = 0, .job = {}});
    }
    Collective& mine = collective(number);
    mine.requests[static_cast<std::size_t>(local)] = request;
    complete = ++mine.came == local_ranks_;
    if (complete) mine.job = lane_.enqueue([this, number] { carry_out(number); });
  }
  if (!complete) return;
  changed_.notify_all();
  if (request.operation == Operation::all_reduce && config_.on_start) config_.on_start();
}

void SpanningCore::forget_done() {
  while (!collectives_.empty() && collectives_.front().job && lane_.done(*collectives_.front().job)) {
    collectives_.pop_front();
    ++first_kept_;
  }
}

void SpanningCore::wait(std::uint64_t number, int rank, const Deadline& deadline) {
  std::optional<Lane::Number> job;
  std::string deed;
  {
    std::unique_lock lock(mutex_);
    if (number < first_kept_) return;
    deed = name(collective(number).requests[static_cast<std::size_t>(rank - first_rank_)].operation);
    const bool came = wait_until(changed_, lock, deadline, [&] {
      return failed() || number < first_kept_ || collective(number).job.has_value();
    });
    if (!came) {
      const auto missing =
          std::ranges::find_if(posted_, [&](std::uint64_t posted) { return posted <= number; });
      const int late = first_rank_ + static_cast<int>(missing - posted_.begin());
      lock.unlock();
      fail_late(fmt::format("rank {}", name_of(late)), "reach the " + deed, rank, deadline);
    }
    if (number < first_kept_) return;
    job = collective(number).job;
  }
  if (!job) check();
  if (!lane_.wait(*job, deadline)) {
    fail_late("another process", "take part in the " + deed, rank, deadline);
  }
}

bool SpanningCore::done(std::uint64_t number) {
  check();
  const std::lock_guard lock(mutex_);
  forget_done();
  return number < first_kept_;
}

void SpanningCore::on_lane(const std::function<void()>& job, const std::string& deed, int rank,
                           const Deadline& deadline) {
  if (!lane_.wait(lane_.enqueue(job), deadline)) fail_late("another process", deed, rank, deadline);
}

// The exchange knows which process is late, if it is told to give up.
void SpanningCore::fail_late(const std::string& who, const std::string& deed, int rank,
                             const Deadline& deadline) {
  const std::string what = fmt::format("{} did not {} within {:g} s (rank {} waited)", who, deed,
                                       deadline.allowed().count(), name_of(rank));
  exchange_->abort(what);
  const Deadline moment = Deadline::in(Seconds(2.0));
  while (!failed() && !moment.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fail_and_throw(
      run_error(what, fmt::format("see what {} was doing; if it was only slow, raise --timeout", who)));
}

void SpanningCore::fail_and_throw(const Error& error) {
  fail(error);
  check();
  std::abort();  // check has thrown
}

void SpanningCore::fail(const Error& error) {
  std::vector<std::weak_ptr<SpanningCore>> children;
  {
    const std::lock_guard lock(mutex_);
    children.swap(children_);
  }
  lane_.fail(Failure(error));
  exchange_->abort(error.what());
  changed_.notify_all();
  for (const auto& child : children) {
    if (const auto core = child.lock()) core->fail(error);
  }
}

void SpanningCore::require_agreement(std::span<const Request> requests, std::uint64_t number) {
  const auto other = find_disagreement(requests);
  if (!other) return;
  throw run_error(fmt::format("rank {} started {} but rank {} {} (collective {} of the group)",
                              name_of(first_rank_), describe(requests.front()), name_of(first_rank_ + *other),
                              describe(requests[static_cast<std::size_t>(*other)]), number),
                  "all ranks must start the same collectives in the same order and with the same sizes");
}

void SpanningCore::carry_out(std::uint64_t number) {
  std::vector<Request> requests;
  {
    const std::lock_guard lock(mutex_);
    requests = collective(number).requests;
  }
  require_agreement(requests, number);
  const Deadline deadline = Deadline::in(config_.timeout);
  if (requests.front().operation != Operation::all_reduce || !compressor_ || exchange_->size() == 1) {
    return do_spanning(requests, placement_, *exchange_, config_.process_of, deadline);
  }
  const std::span<float> sum{requests.front().data, requests.front().count};
  const auto processes = static_cast<std::uint64_t>(exchange_->size());
  const auto whole = 2 * (processes - 1) * sum.size_bytes() / processes;
  const std::uint64_t before = bytes_sent();
  sum_local(requests);
  compressor_->all_reduce(sum, *exchange_, deadline);
  copy_to_others(requests, 0);
  saved_ += static_cast<std::int64_t>(whole) - static_cast<std::int64_t>(bytes_sent() - before);
}

std::shared_ptr<SpanningCore> SpanningCore::subgroup(std::uint64_t split, int colour,
                                                     const std::vector<int>& members,
                                                     const Deadline& deadline) {
  const auto local_members = std::ranges::count_if(members, [&](int rank) { return is_local(rank); });
  std::unique_lock lock(mutex_);
  Forming& forming = forming_[{split, colour}];
  if (++forming.asked == local_members) {
    lock.unlock();
    auto core = form(split, colour, members);
    lock.lock();
    forming.core = std::move(core);
    children_.emplace_back(forming.core);
    changed_.notify_all();
  }
  const bool came = wait_until(changed_, lock, deadline, [&] { return failed() || forming.core != nullptr; });
  auto core = forming.core;
  if (--forming.asked == 0) forming_.erase({split, colour});
  lock.unlock();
  check();
  if (!came) {
    fail_and_throw(run_error("a group was not formed in time", "see what the other ranks were doing"));
  }
  return core;
}

std::shared_ptr<SpanningCore> SpanningCore::form(std::uint64_t split, int colour,
                                                 const std::vector<int>& members) {
  SpanningConfig config = config_;
  config.process_of.clear();
  config.on_start = {};
  std::vector<int> processes;
  std::vector<int> names;
  for (const int rank : members) {
    if (processes.empty() || processes.back() != process_of(rank)) processes.push_back(process_of(rank));
    config.process_of.push_back(static_cast<int>(processes.size()) - 1);
    names.push_back(name_of(rank));
  }
  auto exchange = exchange_->subgroup(processes, fmt::format("split {} {}", split, colour));
  return std::make_shared<SpanningCore>(std::move(exchange), std::move(config), std::move(names));
}

}  // namespace dtrain::comm
