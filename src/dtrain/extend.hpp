#pragma once

#include <memory>
#include <string>

#include "model/zoo.hpp"
#include "strategy/strategy.hpp"

namespace dtrain {

// From then on `--strategy NAME` is this one, in all commands and in Strategy. `summary` is its line in help
// texts. Before anything asks for a strategy; std::logic_error after that, and for a name that is taken.
void add_strategy(const std::string& name, const std::string& summary,
                  std::shared_ptr<const strategy::Strategy> strategy);

// The same for `--model NAME`; a model file needs no program of its own.
void add_model(const std::string& name, const std::string& summary, model::ModelMaker make);

}  // namespace dtrain
