#pragma once

#include <filesystem>

#include "model/model.hpp"

namespace dtrain::model {

// A model that a user describes in a TOML file:
//
//   name = "wide"                  letters, digits, - and _ [the file's name]
//   classes = 10                   [10]
//   [[layer]]
//   type = "convolution"           out_channels; kernel [3], padding [0], bias [true]
//   [[layer]]                      dense: out_features; bias [true]. max_pool: size [2]. relu. add
//   type = "relu"                  batch_norm: epsilon [1e-5], momentum [0.1]
//
// A layer may have a name [its type and its place among those] and inputs: names of earlier layers, or
// "image" [the layer before]; add takes two, the others one. The image is CIFAR-10's, 3 x 32 x 32, and is
// read by convolutions and dense layers. The last layer is dense, as wide as there are classes.
//
// Data error naming file, line and key for whatever is not so.
Model read_model(const std::filesystem::path& file);

}  // namespace dtrain::model
