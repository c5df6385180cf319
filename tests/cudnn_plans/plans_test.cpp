// Every graph of every model, planned by cuDNN.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "described_device.hpp"
#include "model/zoo.hpp"
#include "model_graphs.hpp"

namespace dtrain::backend::cuda {
namespace {

using config::Precision;

// How much becomes a plan. Kernels that cuDNN compiles take half a second each, the others come with it.
enum class Depth { everything, what_needs_no_compiler };

struct PlanCase {
  std::string device;
  Precision precision = Precision::fp32;
  std::string model;
  int batch = 64;
  Depth depth = Depth::everything;
  bool deterministic = false;
};

std::string title(const PlanCase& test) {
  const Policy policy = policy_of(test.precision);
  return fmt::format("{}_{}_{}_{}{}", test.device, precision_name(element_of(test.precision), policy),
                     test.model, test.batch, test.deterministic ? "_deterministic" : "");
}

void PrintTo(const PlanCase& test, std::ostream* out) { *out << title(test); }

bool is_compiled(const Candidate& candidate) {
  const auto& notes = candidate.behaviour_notes;
  return std::count(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) > 0;
}

void expect_allowed(const Candidate& candidate, const Policy& policy) {
  const bool full = policy.true_fp32 && candidate.graph.element == Element::f32 && candidate.graph.products;
  EXPECT_FALSE(full && candidate.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << candidate.tag;
  EXPECT_FALSE(full && candidate.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) << candidate.tag;
  EXPECT_FALSE(candidate.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) << candidate.tag;
  EXPECT_FALSE(policy.deterministic && candidate.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) << candidate.tag;
}

std::set<std::string> tags(const std::vector<Candidate>& candidates) {
  std::set<std::string> tags;
  for (const Candidate& candidate : candidates) tags.insert(candidate.tag);
  return tags;
}

void expect_plan(const Planner& planner, const std::vector<Candidate>& candidates, const Policy& policy) {
  const Attempt attempt = first_plan(planner, candidates, policy);
  ASSERT_TRUE(attempt.plan) << "no candidate becomes a plan:" << attempt.refusal;
  EXPECT_EQ(tags(candidates).count(attempt.plan->tag()), 1U);
  EXPECT_LE(attempt.plan->workspace_bytes(), policy.workspace_limit);
}

class ModelPlans : public testing::TestWithParam<PlanCase> {};

TEST_P(ModelPlans, AreOffered) {
  const PlanCase& test = GetParam();
  const Planner planner = planner_for(test.device);
  Policy policy = policy_of(test.precision);
  policy.deterministic = test.deterministic;
  const auto graphs = graphs_of(model::zoo().at(test.model).value(), test.batch, element_of(test.precision));
  ASSERT_FALSE(graphs.empty());
  for (const NamedGraph& named : graphs) {
    std::printf("%s %s: %s\n", title(test).c_str(), named.layer.c_str(), signature(named.spec).c_str());
    std::fflush(stdout);
    SCOPED_TRACE(signature(named.spec));
    const OperationGraph graph = planner.graph(named.spec);
    const auto candidates = planner.candidates(graph, policy);
    EXPECT_EQ(tags(candidates).size(), candidates.size()) << "a tag names one candidate";
    for (const Candidate& candidate : candidates) expect_allowed(candidate, policy);
    if (test.depth == Depth::what_needs_no_compiler && is_compiled(candidates.front())) continue;
    expect_plan(planner, candidates, policy);
  }
}

// Every engine is compiled on the H200 in each element (tf32 has those of fp32), and on the others in one;
// the rest of the table is heuristics and precompiled kernels.
std::vector<PlanCase> cases() {
  std::vector<PlanCase> all;
  for (const std::string model : {"mlp", "cnn", "resnet9"}) {
    const auto add = [&](const char* device, Precision precision, int batch, Depth depth,
                         bool deterministic = false) {
      all.push_back({device, precision, model, batch, depth, deterministic});
    };
    for (const auto precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      add("h200", precision, 64, Depth::everything);
    }
    add("h200", Precision::tf32, 64, Depth::what_needs_no_compiler);
    for (const auto precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
      add("h200", precision, 512, Depth::what_needs_no_compiler);
      add("h200", precision, 33, Depth::what_needs_no_compiler, true);
    }
    for (const char* device : {"a100", "b200", "rtx5090"}) {
      add(device, Precision::fp32, 64, Depth::what_needs_no_compiler);
      add(device, Precision::fp16, 64, Depth::what_needs_no_compiler);
      add(device, Precision::bf16, 64,
          model == std::string("resnet9") ? Depth::everything : Depth::what_needs_no_compiler);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ModelPlans, testing::ValuesIn(cases()),
                         [](const auto& test) { return title(test.param); });

// Not only the first: whatever autotuning may try.
TEST(EveryCandidate, OfConvolutionsBecomesAPlanFoundAgainByItsTag) {
  const Planner planner = planner_for("h200");
  const Policy policy = policy_of(Precision::bf16);
  int planned = 0;
  for (const NamedGraph& named : graphs_of(model::zoo().at("cnn").value(), 64, Element::bf16)) {
    const OperationGraph graph = planner.graph(named.spec);
    if (!graph.products) continue;
    SCOPED_TRACE(graph.signature);
    std::string last;
    for (const Candidate& candidate : planner.candidates(graph, policy)) {
      if (is_compiled(candidate)) continue;
      const Attempt attempt = planner.try_plan(candidate, policy);
      EXPECT_TRUE(attempt.plan) << attempt.refusal;
      last = candidate.tag;
      ++planned;
    }
    const auto again = planner.plan_with_tag(graph, policy, last);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->tag(), last);
    EXPECT_FALSE(planner.plan_with_tag(graph, policy, "engine 9999 k1=1"));
  }
  EXPECT_GT(planned, 100);
}

// An image of three channels may be padded to four or eight: fewer and faster kernels ask for it.
TEST(FirstLayer, TakesThreeFourOrEightChannels) {
  const Planner planner = planner_for("h200");
  for (const auto precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    const Policy policy = policy_of(precision);
    const Element element = element_of(precision);
    for (const int channels : {3, 4, 8}) {
      const ConvolutionShape shape{64, channels, 32, 32, 64, 3, 1};
      for (const GraphSpec& spec : {GraphSpec(ConvolutionForward{shape, element, true, true}),
                                    GraphSpec(ConvolutionWeightGradient{shape, element})}) {
        SCOPED_TRACE(signature(spec));
        const auto candidates = planner.candidates(planner.graph(spec), policy);
        expect_plan(planner, candidates, policy);
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::backend::cuda
