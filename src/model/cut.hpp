#pragma once

#include <string>
#include <vector>

#include "model/part.hpp"

// A model cut into stages, each of which is given what the one before computed.
namespace dtrain::model {

// Where a stage begins: at a layer, or at one of a convolution's or dense layer's output channels. Then the
// stage before computes the channels below it, and hands on the layer's input beside them.
struct CutPoint {
  int layer = 0;    // index into Model::layers; 0 is where the first stage begins
  int channel = 0;  // 0: the whole layer
  bool operator==(const CutPoint&) const = default;
};

// "conv2", or "conv2:32".
std::string name_of(const Model& model, const CutPoint& cut);

// Where the model may be cut between layers, ascending: where exactly one activation crosses, and nothing is
// torn apart that a backend computes in one go (a ReLU or max pool stays with its convolution).
std::vector<CutPoint> possible_cuts(const Model& model);

// The cuts that `names` ask for, in the order of stages. Usage error that names the layer, and what is
// possible.
std::vector<CutPoint> parse_cuts(const Model& model, const std::vector<std::string>& names);

// Begins of the stages after the first, such that the slowest stage takes least; of equals, those that cut
// between layers. `costs` are seconds of each layer, of forward and backward. Usage error if the model has
// fewer places than that.
std::vector<CutPoint> cut_by_cost(const Model& model, int stages, const std::vector<double>& costs);

// Seconds of each of the stages that these cuts make.
std::vector<double> stage_costs(const Model& model, const std::vector<CutPoint>& cuts,
                                const std::vector<double>& costs);

// Operations of forward and backward, by layer: what a cut goes by where nothing was measured.
std::vector<double> counted_costs(const Model& model);

// One of the stages: a model whose image is what the stage before hands on, and which gives what the next one
// is fed with. With no cuts it is the whole.
Part make_stage(const Model& model, const std::vector<CutPoint>& cuts, int stage);

}  // namespace dtrain::model
