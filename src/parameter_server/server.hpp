#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/replica.hpp"
#include "base/units.hpp"
#include "cluster/member.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::parameter_server {

// When a gradient is applied, and when a worker goes on.
struct Policy {
  bool async = false;
  // async: a worker may be so many steps ahead of the slowest (stale synchronous parallel, Ho et al. 2013);
  // none = any number.
  std::optional<int> staleness;
  // sync: an update takes the first workers - backups gradients of a step; later ones are dropped (Chen et
  // al. 2016).
  int backups = 0;
};

struct TableConfig {
  std::string name;      // tells the runs of a job apart
  std::size_t size = 0;  // floats of the flat buffer, cut into shards over the servers
  std::string optimizer;
  int workers = 1;  // that push
  Policy policy;
};

// What became of one push.
struct Push {
  std::uint64_t version = 0;  // of the weights that came back: updates applied to them
  int staleness = 0;     // updates by others between the weights that the gradient was made from and its own
  bool dropped = false;  // sync: it came after its update
  bool finite = true;    // the update's gradients; where not, weights are as they were
};

// One worker's way to all shards of a table. One thread.
class Client {
 public:
  virtual ~Client() = default;
  // By every worker, before the first push; worker 0's weights are everybody's.
  virtual void initialise(std::span<float> weights, const Deadline& deadline) = 0;
  // Sends this step's gradients and brings weights back. `images` are those the gradients sum over (sync: the
  // update is scaled by images of the step / images that arrived, so that dropped ones do not shorten it).
  virtual Push push_pull(std::span<const float> gradients, int images, int step_images,
                         const kernels::OptimizerStep& step, std::span<float> weights,
                         const Deadline& deadline) = 0;
  // Optimizer state and weights, for checkpoints.
  virtual void read_state(int index, std::span<float> state, const Deadline& deadline) = 0;
  virtual void write(std::span<const float> weights, const std::vector<std::vector<float>>& states,
                     const Deadline& deadline) = 0;
  virtual std::uint64_t bytes_sent() const = 0;
  virtual void abort(const std::string& reason) = 0;
};

// The servers of one table, in this process: `shards` of them. Clients call straight into them.
class Local {
 public:
  virtual ~Local() = default;
  virtual std::unique_ptr<Client> connect(int worker) = 0;
};
std::unique_ptr<Local> make_local_servers(const TableConfig& config, int shards);

// One parameter server task: serves tables at `address` until it goes. Several tables one after another.
class Server {
 public:
  virtual ~Server() = default;
  virtual void open(const TableConfig& config, int shard, int shards) = 0;
  virtual void close(const std::string& name) = 0;  // waits for no one: late calls are told that it is gone
  virtual void abort(const std::string& reason) = 0;
  virtual std::string address() const = 0;
};
struct Endpoint {
  std::string token;
  cluster::TlsFiles tls;
};
std::unique_ptr<Server> serve(const std::string& address, const Endpoint& endpoint);
std::unique_ptr<Client> connect(const std::vector<std::string>& servers, const TableConfig& config,
                                int worker, const Endpoint& endpoint);

// Shards of [0, size), as even as can be in whole cache lines.
backend::Range shard(std::size_t size, int index, int shards);

}  // namespace dtrain::parameter_server
