#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/member.hpp"
#include "comm/sweep.hpp"
#include "config/options.hpp"

namespace dtrain::cli {

struct AllreduceConfig {
  std::optional<int> replicas;  // ranks in each process
  std::string comm = "auto";
  std::string algorithm = "auto";
  std::string compress = "none";
  Seconds timeout{20.0};
  comm::SweepConfig sweep;
  config::Options job;  // where other processes are, and how long to wait for them
};

struct AllreduceResult {
  std::string comm;
  std::string compress;
  int workers = 1;
  int ranks = 1;
  bool exact = true;
  bool chief = true;  // the one process that tells
  std::vector<comm::SweepPoint> points;
  std::function<std::string(std::size_t bytes)> algorithm;
};

// Joins the job that a launcher started, if there is one, and measures on all its ranks.
AllreduceResult measure_allreduce(const AllreduceConfig& config);

// In this process (null), or as a member of a job.
AllreduceResult measure_allreduce(const AllreduceConfig& config, cluster::Member* member);

}  // namespace dtrain::cli
