#include "train/follower.hpp"

#include <map>

#include "base/bytes.hpp"
#include "train/local_ranks.hpp"
#include "train/orders.hpp"
#include "train/wire.hpp"

namespace dtrain::train {
namespace {

// Moves stamps to the chief's clock.
void move_clock(std::vector<std::vector<measure::StepRecord>>& ranks, std::int64_t offset_ns) {
  if (offset_ns == 0) return;
  for (auto& records : ranks) {
    for (auto& record : records) {
      record.begin_ns += offset_ns;
      record.communicated_ns += offset_ns;
      record.end_ns += offset_ns;
      if (record.arrival_ns != 0) record.arrival_ns += offset_ns;
    }
  }
}

// This process's part in one run: ranks, or what it serves.
struct Part {
  WorldConfig config;
  std::unique_ptr<LocalRanks> ranks;
  std::shared_ptr<strategy::Shared> served;
};

class Follower {
 public:
  Follower(cluster::Member& member, const MakeWorld& make)
      : member_(&member), make_(&make), orders_(member) {}

  void follow() {
    for (;;) {
      const Order order = orders_.next();
      if (order.kind == Order::Kind::end) return end(order);
      if (std::ranges::find(order.members, member_->rank()) == order.members.end()) continue;
      obey(order);
    }
  }

 private:
  void end(const Order& order) {
    parts_.clear();
    if (!order.payload.empty()) unpack_failure(order.payload).raise();
  }

  // A failure is the chief's to judge, but for the end of the job.
  void obey(const Order& order) {
    Answer answer;
    try {
      answer.payload = carry_out(order);
    } catch (const JobEnded&) {
      throw;
    } catch (...) {
      answer.failure = failure_in_flight(-1, 0);
      // The others are on their way into a group that will not be whole.
      if (order.kind == Order::Kind::join) {
        member_->fail(member_->rank(), fmt::format("failed: {}", answer.failure->what));
      }
    }
    orders_.answer(answer);
  }

  std::string carry_out(const Order& order) {
    switch (order.kind) {
      case Order::Kind::build:
        return build(order);
      case Order::Kind::join:
        return join(order);
      case Order::Kind::drop:
        parts_.erase(order.name);
        return {};
      default:
        return ask(*parts_.at(order.name).ranks, order);
    }
  }

  std::string build(const Order& order) {
    Part& part = parts_[order.name];
    part.config = (*make_)(order.run);
    part.config.name = order.name;
    FlatLayout layout;
    if (is_worker()) {
      part.ranks = std::make_unique<LocalRanks>(part.config);
      part.ranks->begin_order(orders_.number());
      layout = part.ranks->build();
    }
    ByteWriter bytes;
    return bytes.put(layout).bytes();
  }

  std::string join(const Order& order) {
    Part& part = parts_.at(order.name);
    const auto size = static_cast<std::size_t>(order.number);
    if (part.ranks) {
      part.ranks->begin_order(orders_.number());
      part.ranks->join(size);
    } else {
      part.served = part.config.strategy->serve({.options = part.config.options,
                                                 .plan = &part.config.plan,
                                                 .flat_size = size,
                                                 .member = member_,
                                                 .name = part.config.name,
                                                 .serving = serving(),
                                                 .tls = part.config.tls});
    }
    return {};
  }

  std::string ask(LocalRanks& ranks, const Order& order) {
    ranks.begin_order(orders_.number());
    switch (order.kind) {
      case Order::Kind::run: {
        LocalStretch stretch = ranks.run(static_cast<int>(order.number));
        move_clock(stretch.ranks, member_->clock_offset().offset_ns);
        return pack_records(stretch.ranks);
      }
      case Order::Kind::evaluate: {
        ByteReader reader(order.payload, "statistics");
        const auto& data = ranks.config().data;
        ByteWriter bytes;
        return bytes.put(ranks.evaluate(order.number == 1 ? data.test : data.train, reader.get_all<float>()))
            .bytes();
      }
      case Order::Kind::describe:
        return pack_descriptions(ranks.describe(order.number == 1));
      case Order::Kind::load:
        ranks.load(unpack_numbers(order.payload));
        return {};
      default:
        throw std::logic_error("an order that nobody carries out: " + name(order.kind));
    }
  }

  std::shared_ptr<strategy::Shared> serving() const {
    for (const auto& [name, part] : parts_) {
      if (part.served) return part.served;
    }
    return nullptr;
  }

  bool is_worker() const {
    return member_->peers().at(static_cast<std::size_t>(member_->rank())).role != "ps";
  }

  cluster::Member* member_;
  const MakeWorld* make_;
  Orders orders_;
  std::map<std::string, Part> parts_;
};

}  // namespace

void follow(cluster::Member& member, const MakeWorld& make) { Follower(member, make).follow(); }

}  // namespace dtrain::train
