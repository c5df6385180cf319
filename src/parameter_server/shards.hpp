#pragma once

#include <memory>
#include <span>
#include <string>

#include "parameter_server/server.hpp"
#include "parameter_server/shard.hpp"

namespace dtrain::parameter_server {

// All shards of a table as one worker reaches them, in this process or in others. Spans have the table's
// size. One thread, but for abort.
class Shards {
 public:
  virtual ~Shards() = default;  // leaves

  // Over all parts that came back.
  struct Came {
    std::uint64_t oldest = ~std::uint64_t{0};  // version
    std::uint64_t newest = 0;
    int staleness = 0;
    bool finite = true;
    bool weights_finite = true;

    void add(const Shard::Taken& part);
  };
  virtual Shard::Admission admit(std::uint64_t step, const Deadline& deadline) = 0;  // by the first shard
  virtual Came push(const PushHead& head, std::span<const float> gradients, std::span<float> weights,
                    const Deadline& deadline) = 0;
  virtual Came catch_up(std::uint64_t version, std::uint64_t own_steps, std::span<float> weights,
                        const Deadline& deadline) = 0;
  virtual void rest(std::uint64_t own_steps) = 0;
  virtual Came read(int part, std::span<float> values, const Deadline& deadline) = 0;
  virtual void write(int part, std::span<const float> values, const Deadline& deadline) = 0;
  virtual void settle(std::uint64_t times, const Deadline& deadline) = 0;
  virtual void abort(const std::string& reason) = 0;
};

std::unique_ptr<Client> make_client(const TableConfig& config, int worker, std::unique_ptr<Shards> shards);

}  // namespace dtrain::parameter_server
