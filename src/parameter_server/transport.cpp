#include "parameter_server/transport.hpp"

#include <malloc.h>

#include <mutex>

#include "base/units.hpp"
#include "cluster/credentials.hpp"

namespace dtrain::parameter_server {

void set_up_transport() {
  cluster::quiet_grpc();
  static std::once_flag once;
  std::call_once(once, [] {
    mallopt(M_MMAP_THRESHOLD, static_cast<int>(32 * mib));
    mallopt(M_TRIM_THRESHOLD, static_cast<int>(256 * mib));
    mallopt(M_TOP_PAD, static_cast<int>(64 * mib));
  });
}

}  // namespace dtrain::parameter_server
