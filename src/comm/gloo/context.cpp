#include "comm/gloo/context.hpp"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "base/error.hpp"

namespace dtrain::comm {

namespace {

// The job's key-value, as Gloo wants it.
class JobStore final : public gloo::rendezvous::Store {
 public:
  JobStore(const ExchangeConfig& config, Deadline deadline)
      : member_(*config.member), prefix_("gloo/" + config.name + "/"), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    member_.set(prefix_ + key, {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = member_.get(prefix_ + key, deadline_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

  void erase(int rank) { member_.erase(prefix_ + std::to_string(rank)); }

 private:
  cluster::Member& member_;
  const std::string prefix_;
  const Deadline deadline_;
};

}  // namespace

// A message that is not there in time makes Gloo close all connections of the context: so one is waited for
// that nobody sends.
void interrupt_gloo(gloo::Context& context) {
  constexpr std::uint64_t nobodys_slot = ~std::uint64_t{0};
  std::byte nothing{};
  try {
    const auto buffer = context.createUnboundBuffer(&nothing, sizeof(nothing));
    buffer->recv((context.rank + 1) % context.size, nobodys_slot);
    buffer->waitRecv(std::chrono::milliseconds(1));
  } catch (const gloo::Exception&) {
  }
}

std::shared_ptr<gloo::Context> connect_gloo(const ExchangeConfig& config, int rank) {
  const auto& self = config.member->peers()[static_cast<std::size_t>(config.member->rank())];
  const Deadline deadline = Deadline::in(config.timeout);
  JobStore store(config, deadline);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, static_cast<int>(config.members.size()));
  context->setTimeout(std::chrono::ceil<std::chrono::milliseconds>(config.timeout));
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = self.reached_at;
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    context->connectFullMesh(store, device);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    config.member->check();
    throw environment_error(
        fmt::format("{} cannot connect to the other workers by Gloo at {}: {}", self.describe(),
                    self.reached_at.empty() ? "its host's name" : self.reached_at, gloo_text(error)),
        "workers must reach each other by TCP, on any port; see to firewalls and addresses");
  }
  config.member->barrier("gloo/" + config.name, config.members, deadline);
  store.erase(rank);
  return context;
}

std::string gloo_text(const std::exception& error) {
  const std::string text = error.what();
  const auto place = text.find("] ");
  return text.starts_with("[") && place != std::string::npos ? text.substr(place + 2) : text;
}

}  // namespace dtrain::comm
