#include "backend/xla/xla_backend.hpp"
#include "base/error.hpp"

namespace dtrain::backend::xla {

namespace {

[[noreturn]] void refuse() {
  throw environment_error("this build of dtrain has no TPU backend: PJRT's header pjrt_c_api.h was not there",
                          "run cmake/fetch_pjrt.sh (63 MB from PyPI), then ./dtrain, which builds again; "
                          "docs/tpu.md tells more");
}

class NoBackend final : public Backend {
 public:
  std::string name() const override { return "tpu"; }
  std::vector<DeviceInfo> devices() const override { refuse(); }
  std::vector<std::string> libraries() const override { return {}; }
  std::vector<std::string> check_precision(config::Precision) const override { refuse(); }
  std::size_t estimate_memory(const ReplicaConfig&) const override { refuse(); }
  std::unique_ptr<Replica> make_replica(const ReplicaConfig&) const override { refuse(); }
};

}  // namespace

std::shared_ptr<const Backend> make_xla_backend(std::string) { return std::make_shared<NoBackend>(); }

}  // namespace dtrain::backend::xla
