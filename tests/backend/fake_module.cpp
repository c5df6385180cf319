// Stands for the CUDA module: built as one, with its own copy of the static libraries, in several makes.
#include "backend/module_table.hpp"
#include "base/error.hpp"

namespace {

using namespace dtrain;

class FailingBackend final : public backend::Backend {
 public:
  std::string name() const override { return "fake"; }
  std::vector<backend::DeviceInfo> devices() const override {
    throw environment_error("no GPU in here", "buy one");
  }
  std::vector<std::string> libraries() const override { throw std::bad_alloc(); }
  std::vector<std::string> check_precision(config::Precision) const override {
    log_warning("said in the module");
    return {};
  }
  std::size_t estimate_memory(const backend::ReplicaConfig&) const override { return 7; }
  std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig&) const override {
    throw Interrupted();
  }
};

std::shared_ptr<const backend::Backend> make_backend() { return std::make_shared<FailingBackend>(); }

backend::ModuleGroupMaker find_communicator(const char*) { return nullptr; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const dtrain::backend::ModuleTable* FAKE_ENTRY() {
  static const dtrain::backend::ModuleTable table = {.abi = FAKE_ABI,
                                                     .interface_id = FAKE_ID,
                                                     .make_backend = &make_backend,
                                                     .find_communicator = &find_communicator,
                                                     .redirect_log = &dtrain::redirect_log};
  return &table;
}
