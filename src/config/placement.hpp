#pragma once

#include "config/plan.hpp"

namespace dtrain::config {

// Cores that this process may keep busy at the same time.
double usable_cores(const Inventory& inventory);

// What a replica is given, where it is no share of cores.
const char* unit(const Inventory& inventory);

// Worker by worker: ranks fill one before they go to the next, so that few replicas stay close together.
void deal_to_workers(RunPlan& run, const Inventory& inventory, int largest);

// Gives every rank of the run its cores or its device; says so where ranks have to share them.
void place(RunPlan& run, const Options& options, const Inventory& inventory);

}  // namespace dtrain::config
