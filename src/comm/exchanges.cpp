#include "comm/exchange.hpp"
#include "comm/gloo/algorithms.hpp"
#include "comm/gloo/exchange.hpp"
#include "comm/mpi/exchange.hpp"

namespace dtrain::comm {

void check_allreduce_algorithm(const std::string& name) { check_gloo_algorithm(name); }

std::vector<std::string> allreduce_algorithms(const std::string& communicator) {
  return communicator == "gloo" ? gloo_algorithms().names() : std::vector<std::string>();
}

const Registry<ExchangeMaker>& exchanges() {
  static const Registry<ExchangeMaker> registry = [] {
    Registry<ExchangeMaker> table("communicator between processes");
    table.add("gloo", "CPU workers: Gloo's collectives over TCP", &make_gloo_exchange);
    table.add("mpi", "CPU workers that mpirun started: MPI's shared memory and networks", &make_mpi_exchange);
    return table;
  }();
  return registry;
}

}  // namespace dtrain::comm
