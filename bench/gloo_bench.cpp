// Bare Gloo against the exchange that dtrain puts around it, by the same algorithm, in turns, between two
// processes of this machine. Prints one line a size: medians in microseconds and their ratio.
#include <fmt/format.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <algorithm>
#include <filesystem>

#include "cluster/member.hpp"
#include "comm/exchange.hpp"
#include "comm/gloo/algorithms.hpp"

namespace {

using namespace dtrain;

constexpr int processes = 2;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::unique_ptr<gloo::Algorithm> make_bare(const std::string& name, std::shared_ptr<gloo::Context> context,
                                           std::vector<float>& data) {
  const int count = static_cast<int>(data.size());
  if (name == "halving_doubling") {
    return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, std::vector{data.data()}, count);
  }
  return std::make_unique<gloo::AllreduceRingChunked<float>>(context, std::vector{data.data()}, count);
}

void measure(comm::Exchange& exchange, const std::shared_ptr<gloo::Context>& context) {
  for (std::size_t bytes = 4 * kib; bytes <= 64 * mib; bytes *= 4) {
    std::vector<float> ours(bytes / sizeof(float), 1.0F);
    std::vector<float> bare(bytes / sizeof(float), 1.0F);
    exchange.register_buffer(ours);
    const std::string name = comm::choose_gloo_algorithm(bytes, processes);
    const auto algorithm = make_bare(name, context, bare);
    std::vector<double> our_times;
    std::vector<double> bare_times;
    const auto time = [&](std::vector<double>& times, const auto& run) {
      exchange.barrier(Deadline::in(Seconds(20.0)));
      const TimePoint begin = Clock::now();
      run();
      times.push_back(seconds(Clock::now() - begin) * 1e6);
    };
    const int repetitions = bytes <= mib ? 200 : 15;
    for (int i = 0; i < repetitions; ++i) {
      time(our_times, [&] { exchange.all_reduce(ours, Deadline::in(Seconds(20.0))); });
      time(bare_times, [&] { algorithm->run(); });
      std::ranges::fill(ours, 1.0F);
      std::ranges::fill(bare, 1.0F);
    }
    if (exchange.rank() != 0) continue;
    const double a = median(our_times);
    const double b = median(bare_times);
    fmt::print("{:>10} {:>18} ours {:>10.1f}  bare {:>10.1f}  ratio {:.3f}\n", bytes, name, a, b, a / b);
  }
}

void run(int rank, const std::string& address, const std::string& folder) {
  config::LaunchEnvironment place;
  place.rank = rank;
  place.world = processes;
  for (int index = 0; index < processes; ++index) {
    place.tasks.push_back({.role = "worker", .index = index, .address = index == 0 ? address : ""});
  }
  const auto member = cluster::join(
      {.place = place, .rendezvous = address, .publish = {}, .token = "", .tls = {}, .build = "bench"});
  {
    const auto exchange =
        comm::exchanges().at("gloo").value({.member = member.get(), .members = {0, 1}, .name = "bench"});
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr attributes("127.0.0.1");
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, processes);
    context->connectFullMesh(store, device);
    measure(*exchange, context);
  }
  member->leave(Deadline::in(Seconds(20.0)));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print("usage: bench_gloo HOST:PORT   (a free port of this machine)\n");
    return 2;
  }
  char folder[] = "/tmp/bench-gloo-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 3;
  const pid_t child = ::fork();
  run(child == 0 ? 1 : 0, arguments[1], folder);
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  return status == 0 ? 0 : 5;
}
