#include "dtrain/extend.hpp"

#include "strategy/open_strategies.hpp"

namespace dtrain {

void add_strategy(const std::string& name, const std::string& summary,
                  std::shared_ptr<const strategy::Strategy> strategy) {
  strategy::open_strategies().add(name, summary, std::move(strategy));
}

void add_model(const std::string& name, const std::string& summary, model::ModelMaker make) {
  model::open_zoo().add(name, summary, make);
}

}  // namespace dtrain
