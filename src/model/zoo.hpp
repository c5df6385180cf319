#pragma once

#include "base/registry.hpp"
#include "model/model.hpp"

namespace dtrain::model {

using ModelMaker = Model (*)();

// mlp, cnn, resnet9.
const Registry<ModelMaker>& zoo();

// resnet9 with base width w (64 in the zoo): channels w, 2w, 4w, 8w.
Model resnet9(int width);

}  // namespace dtrain::model
