#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/member.hpp"

namespace dtrain::cluster {

inline Deadline soon() { return Deadline::in(Seconds(30.0)); }

// What a member of a job of `world` is told, at a rendezvous to be filled in.
JobConfig job_config(int rank, int world);

// All members of a job in threads of this process, over gRPC. `change` may alter what each is told.
std::vector<std::unique_ptr<Member>> join_all(int world, const std::function<void(JobConfig&)>& change = {});

// Calls `work` for every member in a thread of its own, and waits for all.
void on_each(const std::vector<std::unique_ptr<Member>>& job, const std::function<void(Member&)>& work);
void leave_all(const std::vector<std::unique_ptr<Member>>& job);

// What the job ended with, as the call tells; "did not end" where it returned.
std::string ended(const std::function<void()>& call);

// An address of this machine where nobody listens.
std::string free_address();

}  // namespace dtrain::cluster
