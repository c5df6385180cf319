#include <stdexcept>

#include "parameter_server/shards.hpp"

namespace dtrain::parameter_server {
namespace {

struct LocalTable {
  TableConfig config;
  std::vector<backend::Range> ranges;
  std::vector<std::unique_ptr<Shard>> shards;
};

class LocalShards final : public Shards {
 public:
  LocalShards(std::shared_ptr<LocalTable> table, int worker) : table_(std::move(table)), worker_(worker) {}
  ~LocalShards() override {
    for (const auto& shard : table_->shards) shard->leave(worker_);
  }

  Shard::Admission admit(std::uint64_t step, const Deadline&) override {
    return table_->shards.front()->admit(worker_, step);
  }

  Came push(const PushHead& head, std::span<const float> gradients, std::span<float> weights,
            const Deadline& deadline) override {
    for (const auto& shard : table_->shards) shard->begin(worker_, head);
    for_each_chunk([&](Shard& shard, int chunk, backend::Range range) {
      shard.deposit(worker_, chunk, gradients.data() + range.offset);
    });
    Came came;
    for_each_chunk([&](Shard& shard, int chunk, backend::Range range) {
      came.add(shard.take(worker_, chunk, weights.subspan(range.offset, range.size), deadline));
    });
    return came;
  }

  Came catch_up(std::uint64_t version, std::uint64_t own_steps, std::span<float> weights,
                const Deadline& deadline) override {
    for (const auto& shard : table_->shards) shard->catch_up(worker_, version, own_steps, deadline);
    return read(0, weights, deadline);
  }

  void rest(std::uint64_t own_steps) override {
    for (const auto& shard : table_->shards) shard->rest(worker_, own_steps);
  }

  Came read(int part, std::span<float> values, const Deadline&) override {
    Came came;
    for_each_chunk([&](Shard& shard, int chunk, backend::Range range) {
      came.add({.version = shard.read(worker_, part, chunk, values.subspan(range.offset, range.size))});
    });
    return came;
  }

  void write(int part, std::span<const float> values, const Deadline&) override {
    for_each_chunk([&](Shard& shard, int chunk, backend::Range range) {
      shard.write(part, chunk, values.subspan(range.offset, range.size));
    });
  }

  void settle(std::uint64_t times, const Deadline& deadline) override {
    for (const auto& shard : table_->shards) shard->settle(worker_, times, deadline);
  }

  void abort(const std::string& reason) override {
    for (const auto& shard : table_->shards) shard->abort(reason);
  }

 private:
  // The range is that of the whole table.
  template <class Visit>
  void for_each_chunk(const Visit& visit) {
    for (std::size_t i = 0; i < table_->shards.size(); ++i) {
      Shard& shard = *table_->shards[i];
      for (int chunk = 0; chunk < shard.storage().chunks(); ++chunk) {
        const backend::Range range = shard.storage().chunk(chunk);
        visit(shard, chunk, {table_->ranges[i].offset + range.offset, range.size});
      }
    }
  }

  std::shared_ptr<LocalTable> table_;
  int worker_;
};

class LocalServers final : public Local {
 public:
  LocalServers(const TableConfig& config, int shards) : table_(std::make_shared<LocalTable>()) {
    table_->config = config;
    for (int index = 0; index < shards; ++index) {
      table_->ranges.push_back(shard(config.size, index, shards));
      table_->shards.push_back(make_shard(config, table_->ranges.back().size));
    }
  }
  std::unique_ptr<Client> connect(int worker) override {
    return make_client(table_->config, worker, std::make_unique<LocalShards>(table_, worker));
  }
  void abort(const std::string& reason) override {
    for (const auto& shard : table_->shards) shard->abort(reason);
  }

 private:
  std::shared_ptr<LocalTable> table_;
};

}  // namespace

std::unique_ptr<Local> make_local_servers(const TableConfig& config, int shards) {
  if (shards < 1 || config.workers < 1) throw std::logic_error("a table without servers or workers");
  return std::make_unique<LocalServers>(config, shards);
}

}  // namespace dtrain::parameter_server
