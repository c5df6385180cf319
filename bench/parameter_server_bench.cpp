// Push and pull of a worker's gradients and weights over loopback, beside a plain socket that echoes the same
// bytes, in turns in the same run. Medians. GB/s = bytes / time, each way. ratio = the echo's time / push and
// pull's; the servers also update their weights (sgd) and look whether all numbers are finite.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "parameter_server/server.hpp"

namespace {

using namespace dtrain;

constexpr std::size_t piece = 256 * kib;

class Socket {
 public:
  explicit Socket(int number) : number_(number) {
    if (number < 0) throw std::runtime_error("no socket");
    const int on = 1;
    setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Socket() { close(number_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int number() const { return number_; }
  bool send(const char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t sent = ::send(number_, data, size, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      size -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool receive(char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t received = recv(number_, data, size, 0);
      if (received <= 0) return false;
      data += received;
      size -= static_cast<std::size_t>(received);
    }
    return true;
  }

 private:
  int number_;
};

// Sends back what comes, piece by piece, and so in both directions at once.
class Echo {
 public:
  explicit Echo(std::size_t bytes) : bytes_(bytes) {
    const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener.number(), generic, length) != 0 || listen(listener.number(), 1) != 0 ||
        getsockname(listener.number(), generic, &length) != 0) {
      throw std::runtime_error("cannot listen");
    }
    here_ = std::make_unique<Socket>(socket(AF_INET, SOCK_STREAM, 0));
    if (connect(here_->number(), generic, length) != 0) throw std::runtime_error("cannot connect");
    there_ = std::make_unique<Socket>(accept(listener.number(), nullptr, nullptr));
    echo_ = std::thread([this] { send_back(); });
  }
  ~Echo() {
    shutdown(here_->number(), SHUT_RDWR);
    echo_.join();
  }

  void round_trip(const float* out, float* in) const {
    std::thread sender([&] { here_->send(reinterpret_cast<const char*>(out), bytes_); });
    here_->receive(reinterpret_cast<char*>(in), bytes_);
    sender.join();
  }

 private:
  void send_back() const {
    std::vector<char> buffer(piece);
    for (std::size_t left = bytes_;;) {
      const std::size_t size = std::min(piece, left);
      if (!there_->receive(buffer.data(), size) || !there_->send(buffer.data(), size)) return;
      left = left == size ? bytes_ : left - size;
    }
  }

  std::size_t bytes_;
  std::unique_ptr<Socket> here_;
  std::unique_ptr<Socket> there_;
  std::thread echo_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Work>
double time_of(const Work& work) {
  const TimePoint begin = Clock::now();
  work();
  return seconds(Clock::now() - begin);
}

void push_pull(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const int shards = static_cast<int>(state.range(1));
  const parameter_server::TableConfig config{
      .name = "bench", .size = bytes / sizeof(float), .optimizer = "sgd", .workers = 1, .policy = {}};
  std::vector<std::unique_ptr<parameter_server::Server>> servers;
  std::vector<parameter_server::Site> sites;
  for (int index = 0; index < shards; ++index) {
    servers.push_back(parameter_server::serve("127.0.0.1:0", {}));
    servers.back()->open(config, index, shards);
    sites.push_back({servers.back()->address(), ""});
  }
  const auto client = parameter_server::connect(sites, config, 0, {});
  const auto local = parameter_server::make_local_servers(config, shards);
  const auto neighbour = local->connect(0);
  const Echo echo(bytes);

  AlignedBuffer<float> gradients(config.size);
  AlignedBuffer<float> weights(config.size);
  std::fill_n(gradients.data(), config.size, 1e-3F);
  const auto deadline = [] { return Deadline::in(Seconds(20)); };
  client->initialise(weights.span(), deadline());
  neighbour->initialise(weights.span(), deadline());
  const parameter_server::Gradients step{
      .values = gradients.span(), .images = 1, .step_images = 1, .update = {}};

  std::vector<double> pushes;
  std::vector<double> echoes;
  std::vector<double> in_process;
  for (auto iteration : state) {
    static_cast<void>(iteration);
    pushes.push_back(time_of([&] { client->push_pull(step, weights.span(), deadline()); }));
    echoes.push_back(time_of([&] { echo.round_trip(gradients.data(), weights.data()); }));
    in_process.push_back(time_of([&] { neighbour->push_pull(step, weights.span(), deadline()); }));
    state.SetIterationTime(pushes.back());
  }
  const double size = static_cast<double>(bytes);
  state.counters["median_ms"] = 1e3 * median(pushes);
  state.counters["GB/s"] = 1e-9 * size / median(pushes);
  state.counters["socket_GB/s"] = 1e-9 * size / median(echoes);
  state.counters["in_process_GB/s"] = 1e-9 * size / median(in_process);
  state.counters["ratio"] = median(echoes) / median(pushes);
}

BENCHMARK(push_pull)
    ->ArgNames({"bytes", "servers"})
    ->ArgsProduct({{static_cast<std::int64_t>(480 * kib), static_cast<std::int64_t>(25 * mib)}, {1, 2}})
    ->UseManualTime();

}  // namespace
