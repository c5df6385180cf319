#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "config/launch_environment.hpp"

namespace dtrain::cluster {

// What one process of a job tells the others when it joins.
struct Peer {
  int rank = 0;  // among members: chief, workers, parameter servers
  std::string role;
  int index = 0;
  std::string address;     // as TF_CONFIG gives it; empty where the launcher gave none
  std::string reached_at;  // the IP address on which this process can be reached by the chief's way
  std::string host;
  std::string boot;  // the same for processes that share a kernel, and so a clock and memory
  int process = 0;
  double joined_seconds = 0.0;  // after the chief began to listen

  // "worker 1 (10.0.0.2:2222)"
  std::string describe() const;
};

// The first thing that went wrong, the same on every member.
struct Loss {
  int rank = 0;
  std::string reason;  // completes "worker 1 ": "does not answer for 20 s", "failed: loss is not finite"
};

// How far a member has come: collectives that it has started. Members of a group count alike.
using Progress = std::uint64_t;

// One process's place in a job. All calls may come from any thread. Waits end by their deadline, naming whom
// they waited for, or with the job; after the first loss every call but leave() throws it (JobEnded).
class Member {
 public:
  virtual ~Member() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<Peer>& peers() const = 0;  // by rank

  // Values that all members see. A key is set once; get waits for it.
  virtual void set(const std::string& key, std::string_view value) = 0;
  virtual std::string get(const std::string& key, const Deadline& deadline) = 0;
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  virtual void erase(const std::string& key) = 0;

  // `ranks` (ascending, with this one) meet; the n-th meeting of a name on one member is that on all. The
  // values come back in the order of `ranks`.
  virtual std::vector<std::string> all_gather(const std::string& name, std::string_view mine,
                                              const std::vector<int>& ranks, const Deadline& deadline) = 0;
  void barrier(const std::string& name, const std::vector<int>& ranks, const Deadline& deadline) {
    all_gather(name, {}, ranks, deadline);
  }

  // Tells how far this member has come. Cheap: it is sent with the next heartbeat.
  virtual void announce(Progress progress) = 0;
  // Of `ranks`, the lowest that has not come so far, as far as a fresh question tells. None: all have.
  virtual std::optional<int> first_behind(Progress progress, const std::vector<int>& ranks) = 0;

  // Ends the job for all, unless it has ended already.
  virtual void fail(int rank, const std::string& reason) = 0;
  virtual std::optional<Loss> loss() const = 0;
  // Throws JobEnded if there was a loss.
  virtual void check() const = 0;
  // Calls `call` once, from a thread of the member's own, when the job has ended by a loss (at once, if it
  // has). The returned handle ends that: when it is gone, the call is over or will not come.
  using Handle = std::shared_ptr<void>;
  [[nodiscard]] virtual Handle on_loss(std::function<void(const Loss&)> call) = 0;

  // To be added to this host's steady clock to get the chief's, in ns, and how far that may be off. 0 and 0
  // for processes of one host.
  struct ClockOffset {
    std::int64_t offset_ns = 0;
    std::int64_t error_ns = 0;
  };
  virtual ClockOffset clock_offset() = 0;

  // In order: all members have come to this call. The chief's returns last. Never throws a loss.
  virtual void leave(const Deadline& deadline) = 0;
};

// Files of the PEM format; all empty: no TLS. With TLS both sides show a certificate that `authority` has
// signed.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authority;
};

struct JobConfig {
  config::LaunchEnvironment place;
  // Of the chief. A chief whose port is 0 listens on a free one, and `publish` is told which.
  std::string rendezvous;
  std::function<void(const std::string& address)> publish;
  Seconds rendezvous_timeout{60.0};
  Seconds timeout{20.0};  // without a heartbeat, or an answer
  std::string token;      // members of another job, and strangers, do not have it
  TlsFiles tls;
  std::string build;  // processes of another build are refused
};

// Joins the job; returns when all its processes have. The chief (rank 0) listens. Usage error for an address
// that cannot be, environment error for a port in use or a host that cannot be resolved, run error for
// members that do not come in time (listing them), that were refused, or that are of another build. Progress
// goes to the log.
std::unique_ptr<Member> join(const JobConfig& config);

// A job whose members are threads of this process, without a network.
std::vector<std::unique_ptr<Member>> make_local_job(int size);

}  // namespace dtrain::cluster
