#include "comm/gloo/exchange.hpp"

#include <gloo/common/error.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/blame.hpp"
#include "comm/direct_exchange.hpp"
#include "comm/gloo/channel.hpp"
#include "comm/gloo/context.hpp"
#include "comm/gloo/reductions.hpp"

namespace dtrain::comm {

namespace {

class GlooExchange final : public DirectExchange {
 public:
  GlooExchange(const ExchangeConfig& config, int rank)
      : DirectExchange(rank, static_cast<int>(config.members.size())), config_(config) {
    if (size() == 1) return;
    context_ = connect_gloo(config_, rank);
    const int slots = context_->nextSlot(2);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank) {
        channels_.emplace_back();
      } else {
        channels_.push_back(std::make_unique<Channel>(*context_, peer, slots));
      }
    }
    widen_sockets();
    outbox_.resize(processes());
    reductions_.emplace(context_, config_.algorithm);
    on_loss_ = config_.member->on_loss([this](const cluster::Loss&) { interrupt("the job has ended"); });
  }

  // Closing a connection takes back what the other side has not read, so all leave together.
  ~GlooExchange() override {
    if (!context_) return;
    try {
      if (!broken_) {
        config_.member->barrier("gloo/" + config_.name + "/end", config_.members,
                                Deadline::in(std::min(config_.timeout, Seconds(5.0))));
      }
    } catch (const std::exception&) {
      broken_ = true;
    }
    on_loss_.reset();
    interrupt("the exchange is over");
  }

  GlooExchange(const GlooExchange&) = delete;
  GlooExchange& operator=(const GlooExchange&) = delete;

  void all_reduce(std::span<float> data, const Deadline& deadline) override {
    begin("the all-reduce", 2 * others() * data.size_bytes() / processes());
    if (size() == 1 || data.empty()) return;
    guarded(deed(), [&] { reductions_->run(data, deadline); });
  }

  void send(std::span<const float> data, int to, const Deadline& deadline) override {
    count(data.size_bytes());
    guarded("a message", [&] {
      auto& box = outbox_[static_cast<std::size_t>(to)];
      if (box.size() == most_untaken) {
        box.front().buffer->waitSend(left(deadline));
        box.pop_front();
      }
      auto& message = box.emplace_back();
      message.data.assign(data.begin(), data.end());
      message.data.push_back(0.0F);  // Gloo knows no empty messages
      message.buffer =
          context_->createUnboundBuffer(message.data.data(), message.data.size() * sizeof(float));
      message.buffer->send(to, message_slot(rank(), to));
    });
  }

  void receive(std::span<float> data, int from, const Deadline& deadline) override {
    guarded("a message", [&] {
      std::vector<float> message(data.size() + 1);
      const auto buffer = context_->createUnboundBuffer(message.data(), message.size() * sizeof(float));
      buffer->recv(from, message_slot(from, rank()));
      buffer->waitRecv(left(deadline));
      std::copy_n(message.begin(), data.size(), data.begin());
    });
  }

  void register_buffer(std::span<float> data) override {
    if (reductions_) reductions_->register_buffer(data);
  }

  std::unique_ptr<Exchange> subgroup(const std::vector<int>& ranks, const std::string& name) override {
    return make_gloo_exchange(subgroup_config(config_, ranks, name));
  }

  void abort(const std::string& reason) override { interrupt(reason); }

  std::string describe_all_reduce(std::size_t bytes) const override {
    if (!reductions_) return "one process, nothing to exchange";
    const auto& self = config_.member->peers()[static_cast<std::size_t>(config_.member->rank())];
    return fmt::format("{} over TCP ({})", reductions_->algorithm_for(bytes), self.reached_at);
  }

 protected:
  void swap(std::span<const std::byte> out, int to, std::span<std::byte> in, int from,
            const Deadline&) override {
    guarded(deed(), [&] {
      const auto piece = [](auto bytes, std::size_t at) {
        return bytes.subspan(at, std::min(Channel::chunk, bytes.size() - at));
      };
      for (std::size_t at = 0; at < std::max(out.size(), in.size()); at += Channel::chunk) {
        if (at < out.size()) channels_[static_cast<std::size_t>(to)]->push(piece(out, at));
        if (at < in.size()) channels_[static_cast<std::size_t>(from)]->pull(piece(in, at));
      }
    });
  }

 private:
  static constexpr std::size_t most_untaken = 64;
  struct Outgoing {
    std::vector<float> data;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };

  static std::chrono::milliseconds left(const Deadline& deadline) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline.at() - Clock::now()),
                    std::chrono::milliseconds(1));
  }

  // Beyond what Gloo's own collectives make of their tags.
  std::uint64_t message_slot(int from, int to) const {
    constexpr std::uint64_t messages = std::uint64_t{1} << 62U;
    return messages + static_cast<std::uint64_t>(from * size() + to);
  }

  // Gloo makes a socket's buffer as large as what is sent through channels, and never looks at messages:
  // those would go one segment at a time, each after an acknowledgement that TCP may delay.
  void widen_sockets() {
    std::vector<std::byte> chunk(Channel::chunk);
    guarded("its first bytes", [&] {
      for (const auto& channel : channels_) {
        if (channel) channel->push(chunk);
      }
      for (const auto& channel : channels_) {
        if (channel) channel->pull(chunk);
      }
    });
  }

  template <class Call>
  void guarded(const char* what, const Call& call) {
    try {
      call();
    } catch (const gloo::Exception& error) {
      broken_ = true;
      blame(config_, what, aborted().value_or(gloo_text(error)));
    }
  }

  std::optional<std::string> aborted() {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

  void interrupt(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!reason_) reason_ = reason;
    }
    broken_ = true;
    if (context_) interrupt_gloo(*context_);
  }

  const ExchangeConfig config_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<std::unique_ptr<Channel>> channels_;  // by process
  std::vector<std::deque<Outgoing>> outbox_;        // by process
  std::optional<GlooReductions> reductions_;
  cluster::Member::Handle on_loss_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::optional<std::string> reason_;
};

}  // namespace

std::unique_ptr<Exchange> make_gloo_exchange(const ExchangeConfig& config) {
  check_gloo_algorithm(config.algorithm);
  const auto place = std::ranges::find(config.members, config.member->rank());
  if (place == config.members.end()) throw std::logic_error("a process makes an exchange of others");
  return std::make_unique<GlooExchange>(config, static_cast<int>(place - config.members.begin()));
}

}  // namespace dtrain::comm
