#pragma once

#include <gloo/context.h>

#include <memory>
#include <string>

#include "comm/exchange.hpp"

namespace dtrain::comm {

// Connects all processes of a group to each other.
std::shared_ptr<gloo::Context> connect_gloo(const ExchangeConfig& config, int rank);

// Ends all that waits on a connection of this context, now and later; from any thread.
void interrupt_gloo(gloo::Context& context);

// What Gloo threw, without the place in its sources.
std::string gloo_text(const std::exception& error);

}  // namespace dtrain::comm
