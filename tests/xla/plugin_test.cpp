// What is said of plugins that cannot be used.

#include "backend/xla/plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "backend/devices.hpp"
#include "backend/xla/client.hpp"
#include "backend/xla/cpu_share.hpp"
#include "backend/xla/find_plugin.hpp"
#include "base/error.hpp"

namespace {

using namespace dtrain;
using namespace dtrain::backend::xla;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string fake(const std::string& name) {
  return std::string(FAKE_PLUGINS) + "/libfake_pjrt_" + name + ".so";
}

// Everything that is said, or what is not as it should be.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.category() != ErrorCategory::environment) return "not an environment error";
    return std::string(error.what()) + " -> " + error.advice();
  }
  return "nothing was thrown";
}

std::string refused_plugin(const std::string& file) {
  return refusal([&] { const Plugin plugin(file); });
}
std::string refused_client(const std::string& file) {
  return refusal([&] { const Client client(std::make_shared<const Plugin>(file), 0); });
}

TEST(Plugin, OneThatIsTooOldIsRefusedWithItsVersion) {
  EXPECT_THAT(refused_plugin(fake("old")), AllOf(HasSubstr("version 0.40"), HasSubstr("0.54 or a later one"),
                                                 HasSubstr("pip install --upgrade libtpu")));
}

TEST(Plugin, AnythingElseIsNoPlugin) {
  EXPECT_THAT(refused_plugin("/proc/self/maps"), HasSubstr("cannot be loaded"));
  EXPECT_THAT(refused_plugin("libm.so.6"), HasSubstr("no PJRT plugin: it has no GetPjrtApi"));
}

TEST(Plugin, OneThatDoesNotStartSaysWhyInOneLine) {
  EXPECT_THAT(refused_plugin(fake("broken")), AllOf(HasSubstr("does not start: the fake is broken ->")));
}

TEST(Client, NoDeviceIsAnEnvironmentError) {
  EXPECT_THAT(refused_client(fake("empty")), HasSubstr("finds no device here: it lists none"));
  EXPECT_THAT(refused_client(fake("failing")), HasSubstr("finds no device here: the fake is broken ->"));
}

TEST(Client, OfAPluginForTpusItAdvisesATpu) {
  EXPECT_THAT(refused_client(fake("tpu")), HasSubstr("run on a TPU machine"));
}

TEST(Client, OptionsNameEveryDeviceOnce) {
  const std::int64_t ids[] = {4, 300};
  // 3: { 1: -1, 4: 2, 5: 1, 9: { 1: 2, 2: 1, 3: { 1: 4, 1: 300 } } }
  const std::string inner = {1 << 3, 2, 2 << 3, 1, 3 << 3 | 2, 5, 1 << 3, 4, 1 << 3, '\xAC', 2};
  const std::string minus_one = std::string(9, '\xFF') + '\x01';
  const std::string build = std::string(1, 1 << 3) + minus_one +
                            std::string{4 << 3, 2, 5 << 3, 1, 9 << 3 | 2} + static_cast<char>(inner.size()) +
                            inner;
  EXPECT_EQ(compile_options(2, ids), std::string(1, 3 << 3 | 2) + static_cast<char>(build.size()) + build);
}

class FindPlugin : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("TPU_LIBRARY_PATH"); }
  void TearDown() override { ::unsetenv("TPU_LIBRARY_PATH"); }
};

TEST_F(FindPlugin, TakesWhatIsAskedForFirst) {
  ::setenv("TPU_LIBRARY_PATH", fake("old").c_str(), 1);
  EXPECT_EQ(find_plugin(fake("empty")), fake("empty"));
  EXPECT_EQ(find_plugin(""), fake("old"));
}

TEST_F(FindPlugin, SaysWhereAMissingFileWasNamed) {
  EXPECT_THAT(refusal([] { find_plugin("/nowhere/a.so"); }), HasSubstr("--pjrt-plugin /nowhere/a.so"));
  ::setenv("TPU_LIBRARY_PATH", "/nowhere/b.so", 1);
  EXPECT_THAT(refusal([] { find_plugin(""); }), HasSubstr("TPU_LIBRARY_PATH /nowhere/b.so"));
}

TEST(FindDevices, TpuTakesThePluginThatIsNamed) {
  const auto inventory = backend::find_devices("tpu", {.pjrt_plugin = XLA_CPU_PLUGIN});
  EXPECT_EQ(inventory.device, "tpu");
  EXPECT_GE(inventory.gpus, 1);
  EXPECT_THAT(inventory.device_reason, AllOf(HasSubstr("platform cpu"), HasSubstr(XLA_CPU_PLUGIN)));
  EXPECT_THAT(refusal([] { backend::find_devices("tpu", {.pjrt_plugin = fake("failing")}); }),
              HasSubstr("finds no device"));
}

TEST(CpuShare, ThreadsThatLeaveTheirCoresAreRefused) {
  const int core = 0;
  std::thread held([&] {
    EXPECT_NO_THROW(make_on_cores({core}, [] {}));
    std::atomic<bool> stop{false};
    std::thread other;
    const auto leave = [&] {
      other = std::thread([&] {
        while (!stop) std::this_thread::yield();
      });
      cpu_set_t all;
      CPU_ZERO(&all);
      CPU_SET(0, &all);
      CPU_SET(1, &all);
      ::pthread_setaffinity_np(other.native_handle(), sizeof(all), &all);
    };
    const bool alone = std::thread::hardware_concurrency() < 2;
    if (!alone) {
      EXPECT_THAT(refusal([&] { make_on_cores({core}, leave); }),
                  HasSubstr("would not be N times the hardware"));
      stop = true;
      other.join();
    }
  });
  held.join();
}

}  // namespace
