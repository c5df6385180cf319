#pragma once

#include <string>
#include <vector>

#include "model/model.hpp"

namespace dtrain::backend::cpu {

// How long one fused layer's part of a training step takes on one core, and how much arithmetic is in it.
struct LayerTime {
  std::string layer;  // with what is fused into it: "conv1+relu+pool1"
  int index = 0;      // of the first of them in Model::layers
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;  // gradients of parameters and of inputs
  double forward_flops = 0.0;     // convolutions and dense layers; 0 for the others, which only move memory
  double backward_flops = 0.0;
};

// Runs whole steps of `batch` images on the calling thread and takes each layer's median over `steps`.
std::vector<LayerTime> profile_layers(const model::Model& model, int batch, int steps);

// Seconds that each of the model's layers takes forward and backward, the least of several runs; what is
// fused into a layer counts there. Takes about half a second.
std::vector<double> measure_layers(const model::Model& model, int batch);

}  // namespace dtrain::backend::cpu
