// What cuDNN offers for this GPU, beside what it offers for the description of one. Differences are reported,
// in plans.txt beside the other results: they are no faults, but say how much planning without a GPU is
// worth.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cuda/cudnn/handle.hpp"
#include "backend/cuda/stream.hpp"
#include "cudnn_plans/described_device.hpp"
#include "cudnn_plans/model_graphs.hpp"
#include "model/zoo.hpp"
#include "precisions.hpp"
#include "results_folder.hpp"

namespace dtrain::backend::cuda {
namespace {

using config::Precision;

std::string tags_of(const std::vector<Candidate>& candidates, std::size_t most) {
  std::string tags;
  for (std::size_t i = 0; i < std::min(most, candidates.size()); ++i) {
    tags += (i == 0 ? "" : "; ") + candidates[i].tag;
  }
  return tags;
}

// The committed description of a GPU of this name, if there is one.
std::optional<std::string> described_as(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(DTRAIN_DEVICES)) {
    std::ifstream file(entry.path());
    const auto properties = nlohmann::json::parse(file, nullptr, false);
    if (properties.is_object() && properties.value("deviceName", "") == name) {
      return entry.path().stem().string();
    }
  }
  return std::nullopt;
}

class PlansOfThisGpu : public ::testing::Test {
 protected:
  PlansOfThisGpu() { DTRAIN_CUDA(cudaSetDevice(0)); }

  // cuDNN's own description of this GPU.
  std::string describe() {
    Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    const std::int32_t device = 0;
    DTRAIN_CUDA(cudnnBackendSetAttribute(properties.raw(), CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32,
                                         1, &device));
    properties.finalize();
    const auto text = properties.get<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    return {text.begin(), std::find(text.begin(), text.end(), '\0')};
  }
  std::string device_name() {
    cudaDeviceProp properties{};
    DTRAIN_CUDA(cudaGetDeviceProperties(&properties, 0));
    return properties.name;
  }

  // Lines about every graph of every model, and how many begin with the same candidate.
  void compare(std::ostream& out, const std::string& title, const Planner& described) {
    const Planner here(handle_.get());
    int same_first = 0;
    int same_list = 0;
    int graphs = 0;
    for (const Precision precision : dtrain::testing::precisions) {
      const Policy policy = policy_of(precision);
      for (const char* model : {"cnn", "resnet9"}) {
        for (const NamedGraph& named : graphs_of(model::zoo().at(model).value(), 64, element_of(precision))) {
          const auto real = here.candidates(here.graph(named.spec), policy);
          std::vector<Candidate> planned;
          try {
            planned = described.candidates(described.graph(named.spec), policy);
          } catch (const Error& error) {
            out << "  described: " << error.what() << "\n";
          }
          ++graphs;
          const std::string real_tags = tags_of(real, real.size());
          const bool list = real_tags == tags_of(planned, planned.size());
          const bool first = !planned.empty() && real.front().tag == planned.front().tag;
          same_list += list ? 1 : 0;
          same_first += first ? 1 : 0;
          if (list) continue;
          out << fmt::format("{} {}: {} offered here, {} described\n  here: {}\n  described: {}\n",
                             config::name(precision), signature(named.spec), real.size(), planned.size(),
                             tags_of(real, 3), tags_of(planned, 3));
        }
      }
    }
    const std::string sum = fmt::format("{}: of {} graphs {} have the same first candidate, {} the same list",
                                        title, graphs, same_first, same_list);
    out << sum << "\n";
    std::printf("%s\n", sum.c_str());
    EXPECT_GT(graphs, 50);
  }

  Stream stream_ = make_stream();
  CudnnHandle handle_{stream_.get()};
};

TEST_F(PlansOfThisGpu, ThePropertiesAreCudnns) {
  const std::string text = describe();
  std::ofstream(dtrain::testing::results_folder() / "device_properties.json") << text << "\n";
  const auto properties = nlohmann::json::parse(text);
  EXPECT_EQ(properties.at("deviceName").get<std::string>(), device_name());
}

TEST_F(PlansOfThisGpu, AreComparedWithThoseOfItsDescription) {
  std::ofstream out(dtrain::testing::results_folder() / "plans.txt");
  out << device_name() << ", cuDNN " << cudnnGetVersion() << "\n\n";
  compare(out, "described by cuDNN's own properties", Planner::for_described_device(describe()));
  const auto committed = described_as(device_name());
  if (!committed) {
    std::printf("no description of a %s is kept in tests/cudnn_plans/devices\n", device_name().c_str());
    return;
  }
  compare(out, "described by " + *committed + ".json", planner_for(*committed));
}

}  // namespace
}  // namespace dtrain::backend::cuda
