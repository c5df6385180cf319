#pragma once

#include "base/open_registry.hpp"
#include "model/model.hpp"

namespace dtrain::model {

using ModelMaker = Model (*)();

// mlp, cnn, resnet9.
const Registry<ModelMaker>& zoo();
// The same, for programs that bring their own.
OpenRegistry<ModelMaker>& open_zoo();

// resnet9 with base width w (64 in the zoo): channels w, 2w, 4w, 8w.
Model resnet9(int width);

}  // namespace dtrain::model
