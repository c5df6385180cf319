#include "cluster/this_process.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

namespace dtrain::cluster {

Peer this_process() {
  Peer peer;
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) == 0) peer.host = host.data();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> peer.boot;
  peer.process = ::getpid();
  return peer;
}

}  // namespace dtrain::cluster
