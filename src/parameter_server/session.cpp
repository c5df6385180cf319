#include "parameter_server/session.hpp"

#include <algorithm>
#include <cmath>

#include "cluster/credentials.hpp"
#include "parameter_server/transport.hpp"

namespace dtrain::parameter_server {
namespace {

void* const reading_tag = reinterpret_cast<void*>(1);
void* const writing_tag = reinterpret_cast<void*>(2);
void* const finish_tag = reinterpret_cast<void*>(3);

bool same(const std::string& one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

}  // namespace

Session::~Session() { leave(); }

void Session::leave() {
  if (worker_ < 0) return;
  shard_->leave(worker_);
  const std::lock_guard lock(table_->mutex);
  table_->connected.erase(std::exchange(worker_, -1));
}

void Session::run(const std::string& token) {
  const auto& metadata = call_.context.client_metadata();
  const auto found = metadata.find(cluster::token_key);
  const bool known =
      found != metadata.end() && same(token, std::string_view(found->second.data(), found->second.size()));
  if (call_.context.method() != method) {
    finish({grpc::StatusCode::UNIMPLEMENTED, "this is a parameter server"});
  } else if (!known) {
    finish({grpc::StatusCode::UNAUTHENTICATED, "not of this job"});
  } else {
    serve();
    leave();
    finish(grpc::Status::OK);
  }
}

void Session::serve() {
  try {
    while (read()) {
      const Received request(incoming_);
      demand(request.header().has_value(), "a message that is not one");
      if (table_) {
        answer(request);
      } else {
        greet(request);
      }
    }
  } catch (const Error& error) {
    send_failure(error);
  }
}

void Session::greet(const Received& hello) {
  const Header& header = *hello.header();
  demand(header.kind == Kind::hello && header.count == 0, "a call that does not say what it is");
  table_ = tables_.find(header.table, deadline_of(hello));
  if (header.agreement != table_->agreement) {
    throw usage_error(fmt::format("worker {} and the parameter server were not told the same", header.worker),
                      "start all processes with the same command line");
  }
  Shard& shard = *table_->shard;
  demand(header.worker < static_cast<std::uint32_t>(shard.config().workers), "a worker that is not one");
  const int worker = static_cast<int>(header.worker);
  {
    const std::lock_guard lock(table_->mutex);
    demand(table_->connected.insert(worker).second, "a worker that is connected already");
  }
  shard_ = &shard;
  worker_ = worker;
  gradients_ = std::make_shared<AlignedBuffer<float>>(shard.storage().size());
  outgoing_ = std::make_shared<AlignedBuffer<float>>(shard.storage().size());
  send_done();
}

void Session::answer(const Received& request) {
  const Header& header = *request.header();
  demand(header.worker == static_cast<std::uint32_t>(worker_), "a message of another worker");
  const bool has_payload = header.kind == Kind::write || header.kind == Kind::push;
  demand(has_payload || header.count == 0, "a payload where none belongs");
  switch (header.kind) {
    case Kind::write:
      return write_part(request);
    case Kind::settle:
      shard_->settle(worker_, header.step, deadline_of(request));
      return send_done();
    case Kind::read:
      demand(header.part < static_cast<std::uint32_t>(shard_->storage().parts()), "a part that is not there");
      return send_part(static_cast<int>(header.part));
    case Kind::admit:
      return send_done(shard_->admit(worker_, header.step));
    case Kind::push:
      return push(request);
    case Kind::catch_up:
      shard_->catch_up(worker_, header.step, header.own_steps, deadline_of(request));
      return send_part(0);
    case Kind::rest:
      return shard_->rest(worker_, header.own_steps);
    default:
      demand(false, "a message of no known kind");
  }
}

void Session::write_part(const Received& request) {
  const Header& header = *request.header();
  const Storage& storage = shard_->storage();
  demand(worker_ == 0, "weights of a worker that does not give them");
  demand(header.part < static_cast<std::uint32_t>(storage.parts()) &&
             header.chunk < static_cast<std::uint32_t>(storage.chunks()),
         "a part that is not there");
  const int chunk = static_cast<int>(header.chunk);
  const backend::Range range = storage.chunk(chunk);
  demand(header.count == range.size * sizeof(float), "a chunk of another size");
  const std::span<float> values = gradients_->span().subspan(range.offset, range.size);
  request.copy_payload(values.data());
  shard_->write(static_cast<int>(header.part), chunk, values);
}

void Session::send_part(int part) {
  for (int chunk = 0; chunk < shard_->storage().chunks(); ++chunk) {
    const backend::Range range = shard_->storage().chunk(chunk);
    const std::span<float> values = outgoing_->span().subspan(range.offset, range.size);
    Header header = make_header(Kind::values, 0, worker_);
    header.step = shard_->read(worker_, part, chunk, values);
    header.chunk = static_cast<std::uint32_t>(chunk);
    start_writing(encode(header, values, outgoing_));
    while (writing_) next_event();
    if (broken_) return;
  }
}

// Gradients are taken in and updated weights sent out at once, chunk by chunk; it waits for other workers
// only when it has all of this one's gradients.
void Session::push(const Received& first) {
  const Deadline deadline = deadline_of(first);
  const PushHead head = push_head(*first.header());
  demand(sane(head), "numbers of an update that are none");
  shard_->begin(worker_, head);
  const int chunks = shard_->storage().chunks();
  accept_gradients(first, 0);
  int received = 1;
  int sent = 0;
  while (!broken_ && (sent < chunks || writing_)) {
    if (!reading_ && received < chunks) start_reading();
    while (shard_->work(worker_)) {
    }
    if (!writing_ && sent < received && (received == chunks || shard_->ready(worker_, sent))) {
      start_sending(sent++, deadline);
    }
    const bool was_reading = reading_;
    next_event();
    if (broken_ || !was_reading || reading_) continue;
    accept_gradients(Received(incoming_), received++);
  }
}

void Session::accept_gradients(const Received& message, int chunk) {
  const backend::Range range = shard_->storage().chunk(chunk);
  demand(message.header() && message.header()->kind == Kind::push &&
             message.header()->worker == static_cast<std::uint32_t>(worker_) &&
             message.header()->chunk == static_cast<std::uint32_t>(chunk) &&
             message.header()->count == range.size * sizeof(float),
         "gradients of another size or place");
  float* place = gradients_->data() + range.offset;
  message.copy_payload(place);
  shard_->deposit(worker_, chunk, place);
}

void Session::start_sending(int chunk, const Deadline& deadline) {
  const backend::Range range = shard_->storage().chunk(chunk);
  const std::span<float> weights = outgoing_->span().subspan(range.offset, range.size);
  const Shard::Taken taken = shard_->take(worker_, chunk, weights, deadline);
  Header header = make_header(Kind::values, 0, worker_);
  header.chunk = static_cast<std::uint32_t>(chunk);
  header.step = taken.version;
  header.staleness = taken.staleness;
  header.finite = taken.finite ? 1 : 0;
  header.weights_finite = taken.weights_finite ? 1 : 0;
  start_writing(encode(header, weights, outgoing_));
}

void Session::send_done(const Shard::Admission& admission) {
  Header header = make_header(Kind::done, 0, worker_);
  header.in_time = admission.in_time ? 1 : 0;
  header.step = admission.version;
  start_writing(encode(header));
  while (writing_) next_event();
}

void Session::send_failure(const Error& error) {
  while (writing_ && !broken_) next_event();
  if (broken_) return;
  std::string text;
  const Header header = failure_header(error, text);
  start_writing(encode(header, text));
  while (writing_) next_event();
}

void Session::finish(const grpc::Status& status) {
  call_.stream.Finish(status, finish_tag);
  call_.queue.Shutdown();
  void* tag = nullptr;
  bool fine = false;
  while (call_.queue.Next(&tag, &fine)) {
  }
}

void Session::start_reading() {
  call_.stream.Read(&incoming_, reading_tag);
  reading_ = true;
}

void Session::start_writing(const grpc::ByteBuffer& message) {
  if (broken_) return;
  call_.stream.Write(message, writing_tag);
  writing_ = true;
}

// Whoever calls has something under way. It comes when the other side has done its part or is gone, or when
// the server ends.
void Session::next_event() {
  void* tag = nullptr;
  bool fine = false;
  if (!call_.queue.Next(&tag, &fine)) throw std::logic_error("a queue that was shut down too early");
  (tag == reading_tag ? reading_ : writing_) = false;
  broken_ = broken_ || !fine;
}

bool Session::read() {
  if (broken_) return false;
  start_reading();
  while (reading_) next_event();
  return !broken_;
}

Deadline Session::deadline_of(const Received& request) const {
  const double wait = request.header()->wait_seconds;
  demand(wait >= 0.0 && wait <= max_wait_seconds, "a wait of no length");
  return Deadline::in(Seconds(wait));
}

void Session::demand(bool sound, const char* what) const {
  if (sound) return;
  throw run_error(fmt::format("the parameter server was sent {}", what),
                  "start all processes with the same build of the program");
}

void Tables::open(const TableConfig& config, int shard, int shards) {
  auto table = std::make_shared<OpenTable>(config, shard, shards);
  const std::lock_guard lock(mutex_);
  if (aborted_) throw run_error(*aborted_, "see what ended the run first");
  const std::uint64_t name = hash_of(config.name);
  if (closed_.contains(name) || !open_.emplace(name, std::move(table)).second) {
    throw std::logic_error("a table of this name was open before: " + config.name);
  }
  changed_.notify_all();
}

void Tables::close(const std::string& name) {
  std::shared_ptr<OpenTable> table;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(hash_of(name));
    if (found == open_.end()) return;
    table = std::move(found->second);
    open_.erase(found);
    closed_.insert(hash_of(name));
    changed_.notify_all();
  }
  table->shard->abort("the parameter server has closed this table");
}

void Tables::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = reason;
  for (const auto& [name, table] : open_) table->shard->abort(reason);
  changed_.notify_all();
}

std::shared_ptr<OpenTable> Tables::find(std::uint64_t name, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(),
                      [&] { return aborted_ || open_.contains(name) || closed_.contains(name); });
  if (aborted_) throw run_error(*aborted_, "see what ended the run first");
  const auto found = open_.find(name);
  if (found != open_.end()) return found->second;
  if (closed_.contains(name)) {
    throw run_error("the parameter server has closed this table", "see which worker is behind the others");
  }
  throw run_error(
      fmt::format("the parameter server has not opened this table for {:.3g} s", deadline.allowed().count()),
      "see whether its process has come as far as the workers");
}

}  // namespace dtrain::parameter_server
