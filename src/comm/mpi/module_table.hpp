#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "comm/exchange.hpp"

namespace dtrain::comm {

// What the MPI module offers, the same structure on both sides. The first two members stay where they are
// for ever, so that a module of another make is known for one; `abi` counts changes of the others.
struct MpiTable {
  std::uint32_t abi = 0;
  const char* interface_id = nullptr;
  std::unique_ptr<Exchange> (*make_exchange)(const ExchangeConfig& config) = nullptr;
  std::string (*broadcast_text)(const std::string& text, const Deadline& deadline) = nullptr;
  void (*finish)() = nullptr;
  std::string (*library)() = nullptr;
  void (*redirect_log)(LogTarget target) = nullptr;
};

inline constexpr std::uint32_t mpi_abi = 1;
inline constexpr const char* mpi_entry = "dtrain_mpi_module";
using MpiEntry = const MpiTable* (*)();

}  // namespace dtrain::comm
