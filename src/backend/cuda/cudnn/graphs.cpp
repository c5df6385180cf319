#include "backend/cuda/cudnn/graphs.hpp"

#include <fmt/format.h>

#include "backend/cuda/cudnn/families.hpp"

namespace dtrain::backend::cuda {

namespace {

const char* text(Element element) {
  switch (element) {
    case Element::f32:
      return "f32";
    case Element::bf16:
      return "bf16";
    case Element::f16:
      return "f16";
  }
  throw std::logic_error("no such element");
}

std::string text(const ConvolutionShape& s) {
  return fmt::format("n{} c{} h{} w{} k{} r{} p{}", s.batch, s.in_channels, s.in_height, s.in_width,
                     s.out_channels, s.kernel, s.padding);
}

std::string text(const ActivationShape& s) {
  return fmt::format("n{} c{} h{} w{}", s.batch, s.channels, s.height, s.width);
}

std::string text(const DenseShape& s) { return fmt::format("n{} in{} out{}", s.batch, s.inputs, s.outputs); }

const char* epilogue(bool bias, bool relu) {
  if (bias) return relu ? " +bias +relu" : " +bias";
  return relu ? " +relu" : "";
}

std::string say(const char* operation, const auto& spec) {
  return fmt::format("{} {} {}", operation, text(spec.shape), text(spec.element));
}

std::string describe(const ConvolutionForward& s) {
  return say("convolution forward", s) + epilogue(s.bias, s.relu);
}
std::string describe(const ConvolutionDataGradient& s) { return say("convolution data gradient", s); }
std::string describe(const ConvolutionWeightGradient& s) { return say("convolution weight gradient", s); }
std::string describe(const DenseForward& s) { return say("dense forward", s) + epilogue(s.bias, s.relu); }
std::string describe(const DenseDataGradient& s) { return say("dense data gradient", s); }
std::string describe(const DenseWeightGradient& s) { return say("dense weight gradient", s); }
std::string describe(const BatchNormForward& s) {
  return say("batch norm forward", s) + epilogue(false, s.relu) + fmt::format(" epsilon {}", s.epsilon);
}
std::string describe(const BatchNormBackward& s) { return say("batch norm backward", s); }
std::string describe(const MaxPoolForward& s) {
  return say("max pool forward", s) + fmt::format(" size {}", s.size) + (s.index ? " +index" : "");
}
std::string describe(const MaxPoolBackward& s) {
  return say("max pool backward", s) + fmt::format(" size {}", s.size);
}

}  // namespace

std::string name(Role role) {
  switch (role) {
    case Role::x:
      return "x";
    case Role::w:
      return "w";
    case Role::bias:
      return "bias";
    case Role::y:
      return "y";
    case Role::dx:
      return "dx";
    case Role::dw:
      return "dw";
    case Role::dy:
      return "dy";
    case Role::index:
      return "index";
    case Role::gamma:
      return "gamma";
    case Role::beta:
      return "beta";
    case Role::mean:
      return "mean";
    case Role::inverse_deviation:
      return "inverse deviation";
    case Role::dgamma:
      return "dgamma";
    case Role::dbeta:
      return "dbeta";
    case Role::epsilon:
      return "epsilon";
  }
  throw std::logic_error("no such role");
}

std::string signature(const GraphSpec& spec) {
  return std::visit([](const auto& one) { return describe(one); }, spec);
}

OperationGraph build_graph(const GraphSpec& spec, cudnnHandle_t handle) {
  return std::visit([&](const auto& one) { return build(one, signature(spec), handle); }, spec);
}

}  // namespace dtrain::backend::cuda
