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
  std::optional<int> staleness = std::nullopt;
  // sync: an update takes the first workers - backups gradients of a step; later ones are dropped (Chen et
  // al. 2016). The first shard decides which, before they are sent: so all shards take the same ones.
  int backups = 0;
};

struct TableConfig {
  std::string name;      // tells the runs of a job apart
  std::size_t size = 0;  // floats of the flat buffer, cut into shards over the servers
  std::string optimizer;
  int workers = 1;  // that push
  Policy policy;
};

// A step's gradients, and the numbers of its update. Sync: the sum, in worker order, is scaled by
// `step_images` over the images that arrived, so that dropped gradients do not shorten it; learning rate and
// the like are the lowest worker's. The optimizer's own step counts the table's updates on from that of the
// first push after the weights were set.
struct Gradients {
  std::span<const float> values;
  int images = 0;       // that `values` sum over
  int step_images = 0;  // of the whole step, over all workers
  kernels::OptimizerStep update;
};

// What became of one push.
struct Push {
  // Of the weights that came back: updates of their least updated part so far. Sync: steps, those included
  // whose gradients were not finite.
  std::uint64_t version = 0;
  int staleness = 0;  // updates by others between the weights that the gradient was made from and its own; of
                      // the part of the flat buffer that saw most of them. 0 if sync
  bool dropped = false;        // sync: it came after its update
  bool finite = true;          // the update's gradients; where not, weights are as they were
  bool own_finite = true;      // this worker's
  bool weights_finite = true;  // after it
};

// One worker's way to all shards of a table. One thread, but for abort. After a failure a table is of no more
// use: every call of every worker throws the first failure. Waits name the worker or server waited for.
class Client {
 public:
  virtual ~Client() = default;
  // By every worker, before the first push; worker 0's weights are everybody's.
  virtual void initialise(std::span<float> weights, const Deadline& deadline) = 0;
  // Sends this step's gradients and brings weights back. `values` and `weights` have the table's size.
  virtual Push push_pull(const Gradients& gradients, std::span<float> weights, const Deadline& deadline) = 0;
  // No push follows until all workers have made as many as this one: with backup workers, a late one must not
  // wait for this.
  virtual void rest() = 0;
  // The newest weights, or a state of the optimizer; between steps.
  virtual void read_weights(std::span<float> weights, const Deadline& deadline) = 0;
  virtual void read_state(int index, std::span<float> state, const Deadline& deadline) = 0;
  // By every worker, between steps; worker 0's are written, in the order of its state indices. No state: they
  // stay as they are.
  virtual void write(std::span<const float> weights, const std::vector<std::span<const float>>& states,
                     const Deadline& deadline) = 0;
  virtual std::uint64_t bytes_sent() const = 0;  // gradients and weights, without headers
  virtual void abort(const std::string& reason) = 0;
};

// The servers of one table, in this process: `shards` of them. Clients call straight into them.
class Local {
 public:
  virtual ~Local() = default;
  virtual std::unique_ptr<Client> connect(int worker) = 0;
  virtual void abort(const std::string& reason) = 0;
};
std::unique_ptr<Local> make_local_servers(const TableConfig& config, int shards);

// One parameter server task: serves tables at `address` until it goes. Several tables one after another; a
// name is never used twice. All calls may come from any thread.
class Server {
 public:
  virtual ~Server() = default;
  virtual void open(const TableConfig& config, int shard, int shards) = 0;
  virtual void close(const std::string& name) = 0;    // waits for no one: late calls are told that it is gone
  virtual void abort(const std::string& reason) = 0;  // all tables that are open
  virtual std::string address() const = 0;            // with the port that it has got, where 0 was asked for
};
struct Endpoint {
  std::string token;
  cluster::TlsFiles tls = {};
};
// Environment error for an address that cannot be listened on.
std::unique_ptr<Server> serve(const std::string& address, const Endpoint& endpoint);
// Where a shard is served, and what its server wants to see of its workers.
struct Site {
  std::string address;
  std::string token;
};
// By shard. Waits for nothing: initialise waits until the servers listen and have opened the table.
std::unique_ptr<Client> connect(const std::vector<Site>& servers, const TableConfig& config, int worker,
                                const cluster::TlsFiles& tls);

// Shards of [0, size), as even as can be in whole cache lines.
backend::Range shard(std::size_t size, int index, int shards);

}  // namespace dtrain::parameter_server
