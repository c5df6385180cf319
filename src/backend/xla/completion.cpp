#include "backend/xla/completion.hpp"

#include "base/error.hpp"

namespace dtrain::backend::xla {

namespace {

struct Watch {
  std::shared_ptr<Completion> completion;
  const Plugin* plugin;
};

}  // namespace

// The event lives as long as the completion: not to go while the plugin is in one of its functions, which
// calls back at once where there is nothing to wait for.
void Completion::watch(const std::shared_ptr<Completion>& completion, const Plugin& plugin, Event event) {
  auto call = arguments<PJRT_Event_OnReady_Args>(PJRT_Event_OnReady_Args_STRUCT_SIZE);
  call.event = event.get();
  {
    const std::lock_guard lock(completion->mutex_);
    ++completion->pending_;
    completion->events_.push_back(std::move(event));
  }
  auto watch = std::make_unique<Watch>(Watch{completion, &plugin});
  call.user_arg = watch.get();
  call.callback = [](PJRT_Error* error, void* given) {
    const std::unique_ptr<Watch> mine(static_cast<Watch*>(given));
    mine->completion->done(mine->plugin->take_message(error));
  };
  plugin.check(plugin.api().PJRT_Event_OnReady(&call), "tell when they are done");
  watch.release();
}

void Completion::done(const std::string& error) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  last_ns_ = std::max(last_ns_, now);
  if (error_.empty()) error_ = error;
  if (--pending_ == 0) changed_.notify_all();
}

bool Completion::settle(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.at(), [this] { return pending_ == 0; });
}

void Completion::wait(const Deadline& deadline) {
  if (!settle(deadline)) {
    throw run_error(
        fmt::format("the devices have not finished {} for {:g} s", what_, deadline.allowed().count()),
        "raise --timeout if a step may take so long; else look at `dtrain info` and the system's log");
  }
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) {
    throw run_error(fmt::format("{} failed on the devices: {}", what_, error_),
                    "look at `dtrain info` and at the plugin's own messages");
  }
}

std::int64_t Completion::done_ns() {
  const std::lock_guard lock(mutex_);
  return last_ns_;
}

}  // namespace dtrain::backend::xla
