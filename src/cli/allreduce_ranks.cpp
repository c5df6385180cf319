#include "cli/allreduce_ranks.hpp"

#include <map>
#include <numeric>
#include <thread>

#include "cli/job.hpp"
#include "comm/lane.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/spanning_group.hpp"
#include "config/launch_environment.hpp"

namespace dtrain::cli {

namespace {

struct Group {
  std::unique_ptr<comm::LocalGroup> ranks;
  int first = 0;
  int local = 1;
  int size = 1;
  std::map<std::size_t, std::string> algorithms;  // by bytes
};

bool more_threads_than_cores(int local) {
  return local > static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

Group make_local(const AllreduceConfig& config, const std::string& comm) {
  Group group;
  group.local = group.size = config.replicas.value_or(2);
  const comm::LocalGroupConfig local{.size = group.size,
                                     .oversubscribed = more_threads_than_cores(group.size)};
  group.ranks = config.compress == "none" ? comm::local_communicators().at(comm).value(local)
                                          : comm::make_compressed_local_group(local, config.compress, 0);
  for (const std::size_t bytes : config.sweep.sizes) {
    group.algorithms[bytes] = group.size == 1 ? "nothing to exchange" : "shares summed in rank order";
  }
  return group;
}

Group make_spanning(const AllreduceConfig& config, const std::string& comm, cluster::Member& member) {
  Group group;
  group.local = config.replicas.value_or(1);
  std::vector<int> members(static_cast<std::size_t>(member.size()));
  std::iota(members.begin(), members.end(), 0);
  const auto counts = member.all_gather("all-reduce ranks", std::to_string(group.local), members,
                                        Deadline::in(config.timeout));
  comm::SpanningConfig spanning;
  for (int process = 0; process < member.size(); ++process) {
    if (process == member.rank()) group.first = static_cast<int>(spanning.process_of.size());
    const int count = std::stoi(counts[static_cast<std::size_t>(process)]);
    spanning.process_of.insert(spanning.process_of.end(), static_cast<std::size_t>(count), process);
  }
  group.size = static_cast<int>(spanning.process_of.size());
  spanning.compress = config.compress;
  spanning.timeout = config.timeout;
  spanning.oversubscribed = more_threads_than_cores(group.local);
  auto exchange = comm::exchanges().at(comm).value({.member = &member,
                                                    .members = members,
                                                    .name = "all-reduce",
                                                    .algorithm = config.algorithm,
                                                    .timeout = config.timeout,
                                                    .busy_cores = spanning.oversubscribed,
                                                    .progress = {}});
  for (const std::size_t bytes : config.sweep.sizes) {
    group.algorithms[bytes] = exchange->describe_all_reduce(bytes);
  }
  group.ranks = comm::make_spanning_group(std::move(exchange), spanning);
  return group;
}

// Every local rank on a thread of its own; the points of the first, or what the first to fail threw.
std::vector<comm::SweepPoint> run_ranks(Group& group, const comm::SweepConfig& sweep) {
  std::vector<comm::SweepPoint> points;
  std::mutex mutex;
  std::optional<comm::Failure> failure;
  std::vector<std::thread> threads;
  for (int local = 0; local < group.local; ++local) {
    threads.emplace_back([&, local] {
      const auto communicator = group.ranks->join(group.first + local);
      try {
        auto mine = comm::sweep_all_reduce(*communicator, sweep);
        if (local == 0) points = std::move(mine);
      } catch (...) {
        auto caught = comm::Failure::caught();
        communicator->abort(caught.what());
        const std::lock_guard lock(mutex);
        if (!failure) failure.emplace(std::move(caught));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) failure->raise();
  return points;
}

}  // namespace

AllreduceResult measure_allreduce(const AllreduceConfig& config, cluster::Member* member) {
  const bool spans = member != nullptr && member->size() > 1;
  AllreduceResult result;
  result.comm = comm::choose_communicator(
      {.asked = config.comm, .spans_workers = spans, .started_by_mpi = comm::started_by_mpi()});
  result.compress = config.compress;
  result.exact = config.compress == "none";
  Group group = spans ? make_spanning(config, result.comm, *member) : make_local(config, result.comm);
  result.workers = spans ? member->size() : 1;
  result.chief = !spans || member->rank() == 0;
  result.ranks = group.size;
  result.algorithm = [names = group.algorithms](std::size_t bytes) { return names.at(bytes); };
  comm::SweepConfig sweep = config.sweep;
  sweep.exact = result.exact;
  sweep.timeout = config.timeout;
  result.points = run_ranks(group, sweep);
  return result;
}

AllreduceResult measure_allreduce(const AllreduceConfig& config) {
  config::Options options = config.job;
  options.timeout = config.timeout;
  const auto place = config::read_launch_environment(config::process_environment(), options.cluster);
  if (place.alone()) return measure_allreduce(config, nullptr);
  const auto member = join_job(place, options);
  auto result = [&] {
    try {
      return measure_allreduce(config, member.get());
    } catch (const JobEnded&) {
      throw;
    } catch (const Error& error) {
      member->fail(member->rank(), fmt::format("failed: {}", error.what()));
      throw;
    }
  }();
  member->leave(Deadline::in(config.timeout));
  comm::finish_mpi();
  return result;
}

}  // namespace dtrain::cli
