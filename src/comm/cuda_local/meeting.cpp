#include "comm/cuda_local/meeting.hpp"

#include <fmt/format.h>

#include "comm/cuda_local/parts.hpp"

namespace dtrain::comm {

namespace {

// A rank marks in its seat that it enqueues work on others' buffers, for as long as this lives.
class Busy {
 public:
  explicit Busy(Seat& seat) : seat_(seat) { seat_.busy.store(true); }
  ~Busy() { seat_.busy.store(false); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Seat& seat_;
};

}  // namespace

Meeting::Meeting(std::shared_ptr<DeviceGroup> group, int rank, backend::DeviceStream replica)
    : group_(std::move(group)),
      rank_(rank),
      replica_(replica),
      fence_(backend::cuda::make_event()),
      requests_(static_cast<std::size_t>(ranks())),
      buffers_(requests_.size()) {
  group_->join(rank, replica);
}

Meeting::~Meeting() {
  if (!host().failed()) update_finished();
  if (finished_ != started_) {
    host().fail(run_error(fmt::format("rank {} left in the middle of an all-reduce", label(rank_)),
                          "its own error, if it reported one, says why"));
  }
  leave_buffers();
}

void Meeting::check() {
  if (!host().failed()) return;
  leave_buffers();
  try {
    host().check(rank_);
  } catch (const Error& error) {
    // With a text of its own: copies of an exception share theirs, and this one may outlive the group.
    throw Error(error.category(), error.what(), error.advice());
  }
}

void Meeting::leave_buffers() {
  host().leave_buffers(rank_);
  group_->drain();
}

void Meeting::end(const Error& error) {
  host().fail(error);
  check();
  std::abort();  // check has thrown
}

void Meeting::fail(const Error& error) {
  end(Error(error.category(), fmt::format("rank {}: {}", label(rank_), error.what()), error.advice()));
}

void Meeting::fail_late(int late, const std::string& deed, const Deadline& deadline) {
  end(run_error(
      fmt::format("rank {} did not {} within {:g} s (rank {} waited)", label(late), deed,
                  deadline.allowed().count(), label(rank_)),
      fmt::format("see what rank {} was doing; if it was only slow, raise --timeout", label(late))));
}

void Meeting::abort(const std::string& reason) {
  host().fail(run_error(fmt::format("rank {} aborted: {}", label(rank_), reason),
                        fmt::format("look for the cause at rank {}", label(rank_))));
  leave_buffers();
}

std::uint64_t Meeting::start(const Request& request, cudaEvent_t ready) {
  backlog_.push_back({request, ready});
  if (published_ == finished_ + place_count) update_finished();
  publish_backlog();
  return started_++;
}

// All ranks are past the collective that had this place, because it is finished.
void Meeting::publish_backlog() {
  for (; !backlog_.empty() && published_ < finished_ + place_count; backlog_.pop_front()) {
    const Start& next = backlog_.front();
    if (on_device(next.request.operation)) mark_ready(next.ready);
    Post& post = host().post(rank_, published_);
    post.request = next.request;
    post.number.store(++published_);
    host().seat(rank_).event.notify();
  }
}

void Meeting::mark_ready(cudaEvent_t given) {
  const Lane& lane = group_->lane(rank_);
  cudaStream_t source = lane.compute;
  if (given != nullptr) {
    source = lane.stream.get();
    DTRAIN_CUDA(cudaStreamWaitEvent(source, given, cudaEventWaitDefault));
  }
  DTRAIN_CUDA(cudaEventRecord(lane.ready[published_ % place_count].get(), source));
}

void Meeting::go_on() {
  if (finished_ == started_) return;
  for (;;) {
    publish_backlog();
    while (done_ < published_ && all_came()) do_part();
    const std::uint64_t before = finished_;
    update_finished();
    if (backlog_.empty() || finished_ == before) return;
  }
}

bool Meeting::has_come(int rank) const { return host().post(rank, done_).number.load() == done_ + 1; }

bool Meeting::all_came() {
  while (came_ < ranks() && has_come(came_)) ++came_;
  return came_ == ranks();
}

void Meeting::update_finished() {
  std::uint64_t lowest = done_;
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::uint64_t done = host().seat(rank).done.load();
    if (done >= lowest) continue;
    lowest = done;
    slowest_ = rank;
  }
  finished_ = lowest;
}

void Meeting::do_part() {
  gather_requests();
  Seat& seat = host().seat(rank_);
  {
    const Busy busy(seat);
    if (!host().failed()) enqueue_part(*group_, done_, requests_, buffers_, rank_);
  }
  check();
  came_ = 0;
  seat.done.store(++done_);
  seat.event.notify();
}

void Meeting::gather_requests() {
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    requests_[at] = host().post(rank, done_).request;
    buffers_[at] = requests_[at].data;
  }
  if (const auto other = find_disagreement(requests_)) {
    end(run_error(fmt::format("rank {} started {} but rank {} {} (collective {} of the group)", label(0),
                              describe(requests_.front()), label(*other),
                              describe(requests_[static_cast<std::size_t>(*other)]), done_),
                  "all ranks must start the same collectives in the same order and with the same sizes"));
  }
}

void Meeting::finish(std::uint64_t number, const Deadline& deadline) {
  for (go_on(); number >= finished_; go_on()) {
    wait_for_slowest(deadline);
    check();
  }
  if (number < joined_) return;
  const Lane& mine = group_->lane(rank_);
  for (int rank = 0; rank < ranks(); ++rank) {
    DTRAIN_CUDA(cudaStreamWaitEvent(mine.compute, group_->lane(rank).done[number % place_count].get(),
                                    cudaEventWaitDefault));
  }
  joined_ = number + 1;
}

// Waits for the lowest rank that holds up the oldest unfinished collective to take its next step.
void Meeting::wait_for_slowest(const Deadline& deadline) {
  const bool missing = done_ < published_;
  const int late = missing ? came_ : slowest_;
  const auto& theirs = host().seat(late).done;
  const auto ready = [&] {
    return (missing ? has_come(late) : theirs.load() > finished_) || host().failed();
  };
  if (host().seat(late).event.wait(ready, deadline.at(), host().patience())) return;
  const auto what = name(host().post(rank_, missing ? done_ : finished_).request.operation);
  fail_late(late, fmt::format("{} the {}", missing ? "reach" : "finish its part of", what), deadline);
}

void Meeting::wait_for_device(const Deadline& deadline) {
  constexpr Seconds between_looks_at_others{0.01};
  DTRAIN_CUDA(cudaEventRecord(fence_.get(), group_->lane(rank_).compute));
  while (!backend::cuda::wait_for(fence_.get(), Deadline::in(between_looks_at_others))) {
    check();
    if (!deadline.passed()) continue;
    end(run_error(fmt::format("GPU {} did not do its work within {:g} s (rank {} waited)", replica_.device,
                              deadline.allowed().count(), label(rank_)),
                  "`dtrain info` shows the GPU's state; if it was only slow, raise --timeout"));
  }
  cudaGetLastError();  // an event that was not ready is no error for a launch to find
}

}  // namespace dtrain::comm
