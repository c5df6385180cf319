#include "history/work.hpp"

#include <set>

#include "base/text.hpp"

namespace dtrain::history {

namespace {

using Base = config::RunPlan::Base;

std::string yes_no(bool value) { return value ? "yes" : "no"; }

class Traits {
 public:
  template <class Value>
  void add(const char* name, const Value& value, bool ours_only = false) {
    work_.push_back({name, fmt::format("{}", value), ours_only});
  }
  Work take() { return std::move(work_); }

 private:
  Work work_;
};

void add_machine(Traits& traits, const report::Result& result) {
  traits.add("machine", result.machine.key);
  traits.add("device", result.device);
  traits.add("threads a replica", result.device == "cpu" ? result.options.threads_per_replica : 0);
  traits.add("build", result.build.build_type + result.build.sanitizers, true);
}

// A name of the zoo means the same everywhere; a file of that name may hold anything.
std::string model_of(const report::Result& result) {
  const report::ModelInfo& model = result.model;
  const bool known = model.name == result.options.model || model.fingerprint.empty();
  return known ? model.name : fmt::format("{} {}", model.name, model.fingerprint);
}

void add_model(Traits& traits, const report::Result& result) {
  traits.add("model", model_of(result));
  traits.add("parameters", result.model.parameters);
  traits.add("precision", config::name(result.options.precision));
  traits.add("optimizer", result.options.optimizer);
  traits.add("data", result.dataset.name);
  traits.add("data checksum", result.dataset.checksum);
  traits.add("augment", yes_no(result.options.augment));
  const auto& o = result.options;
  traits.add("input",
             fmt::format("prefetch {}, cache {}, shuffle {}", o.prefetch, yes_no(o.cache), o.shuffle), true);
}

void add_plan(Traits& traits, const config::RunPlan& plan, int accumulate) {
  traits.add("strategy", plan.base == Base::plain ? "plain" : plan.strategy);
  traits.add("replicas", plan.replicas);
  const std::set<int> workers(plan.workers.begin(), plan.workers.end());
  traits.add("workers", std::max<std::size_t>(workers.size(), 1), true);
  traits.add("batch", plan.replica_batch.empty() ? 0 : plan.replica_batch.front());
  traits.add("global batch", plan.global_batch);
  traits.add("accumulate", accumulate);
  traits.add("simulated", yes_no(plan.simulated));
}

std::string delays(const config::Options& options) {
  std::vector<std::string> words;
  for (const auto& delay : options.injected_delays)
    words.push_back(
        fmt::format("{} ms in {} of rank {}", delay.milliseconds, config::name(delay.phase), delay.rank));
  return join(words, ", ");
}

// How replicas keep together; the plain loop has no policy.
void add_policy(Traits& traits, const config::Options& asked, bool alone) {
  const config::Options& o = alone ? config::Options() : asked;
  traits.add("sync every", o.sync_every);
  traits.add("updates", config::name(o.updates));
  traits.add("staleness", o.staleness ? fmt::format("{}", *o.staleness) : "any");
  traits.add("backup workers", o.backup_workers);
  traits.add("servers", o.servers);
  traits.add("compress", o.compress);
  traits.add(
      "exchange",
      fmt::format("{} {}, buckets of {} MB, overlap {}", o.comm, o.allreduce, o.bucket_mb, yes_no(o.overlap)),
      true);
  traits.add("injected delay", delays(o), true);
  traits.add(
      "kernels",
      fmt::format("graphs {}, deterministic {}", yes_no(asked.cuda_graphs), yes_no(asked.deterministic)),
      true);
}

std::string shown(const std::string& value) { return value.empty() ? "not told" : value; }

}  // namespace

Work work_of(const report::Result& result, std::size_t run) {
  const auto& plan = result.samples.runs[run].plan;
  Traits traits;
  add_machine(traits, result);
  add_model(traits, result);
  add_plan(traits, plan, result.options.accumulate);
  add_policy(traits, result.options, plan.base == Base::plain);
  return traits.take();
}

const std::string& value_of(const Work& work, const std::string& name) {
  for (const auto& trait : work) {
    if (trait.name == name) return trait.value;
  }
  throw std::logic_error("no trait named " + name);
}

std::vector<std::string> differences(const Work& wanted, const Work& found, bool across_tools) {
  const bool checksums =
      !value_of(wanted, "data checksum").empty() && !value_of(found, "data checksum").empty();
  std::vector<std::string> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Trait& trait = wanted[i];
    if (trait.value == found[i].value || (across_tools && trait.ours_only)) continue;
    if (trait.name == "data" && checksums) continue;
    if (trait.name == "data checksum" && across_tools && !checksums) continue;
    out.push_back(fmt::format("{} {} instead of {}", trait.name, shown(found[i].value), shown(trait.value)));
  }
  return out;
}

// Peers put their library, "torch 2.1", where dtrain's version has only digits.
std::string tool_of(const report::Result& result) {
  const std::string& version = result.build.version;
  const auto letters = version.find_first_not_of("0123456789.-+ ");
  if (version.empty() || letters != 0) return "dtrain";
  return version.substr(0, version.find(' '));
}

}  // namespace dtrain::history
