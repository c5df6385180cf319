#include "make_xla_replica.hpp"

#include <map>

#include "backend/make_replica.hpp"
#include "backend/xla/find_plugin.hpp"

namespace dtrain::testing {

namespace {

const std::shared_ptr<const backend::xla::Plugin>& plugin() {
  backend::xla::quieten_plugins();
  static const auto loaded = std::make_shared<const backend::xla::Plugin>(XLA_CPU_PLUGIN);
  return loaded;
}

}  // namespace

std::unique_ptr<backend::xla::XlaReplica> make_xla_replica(const backend::ReplicaConfig& config, int devices,
                                                           bool on_cpu) {
  // One client for each number of devices, so that a program is compiled once for all tests. They are not
  // taken down at the end: what the plugin would need for it may be gone by then.
  static auto& clients = *new std::map<int, std::shared_ptr<const backend::xla::Client>>;
  auto& client = clients[devices];
  if (!client) client = std::make_shared<const backend::xla::Client>(plugin(), devices);
  return std::make_unique<backend::xla::XlaReplica>(client, config, devices, on_cpu);
}

std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig& config) {
  return make_xla_replica(config, 1);
}

int golden_steps() { return 20; }

}  // namespace dtrain::testing
