#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/error.hpp"
#include "captured_log.hpp"
#include "job.hpp"

namespace dtrain::cluster {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Certificates of two authorities, made by the openssl program.
class Tls : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / fmt::format("dtrain_tls_{}", ::getpid());
    fs::create_directories(folder);
    if (!run("openssl version")) GTEST_SKIP() << "the openssl program is not here to make certificates";
    for (const char* authority : {"ours", "theirs"}) make(authority);
  }
  void TearDown() override { fs::remove_all(folder); }

  TlsFiles files(const std::string& authority) const {
    return {path(authority + ".pem"), path(authority + ".key"), path(authority + "_ca.pem")};
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  fs::path folder;

 private:
  bool run(const std::string& command) const {
    return std::system(fmt::format("cd {} && {} >/dev/null 2>&1", folder.string(), command).c_str()) == 0;
  }
  void make(const std::string& name) const {
    const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    std::ofstream(path("names")) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
    ASSERT_TRUE(run(fmt::format("openssl req -x509 {} -keyout {}_ca.key -out {}_ca.pem -subj /CN={} -days 2",
                                key, name, name, name)));
    ASSERT_TRUE(
        run(fmt::format("openssl req {} -keyout {}.key -out {}.csr -subj /CN=member", key, name, name)));
    ASSERT_TRUE(
        run(fmt::format("openssl x509 -req -in {0}.csr -CA {0}_ca.pem -CAkey {0}_ca.key -CAcreateserial "
                        "-out {0}.pem -days 2 -extfile names",
                        name)));
  }
};

std::string failure(const JobConfig& config) {
  try {
    join(config);
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.category()), error.what());
  }
  return "joined";
}

TEST_F(Tls, AJobWorksAsWithoutIt) {
  const CapturedLog log;
  const auto job = join_all(3, [&](JobConfig& config) { config.tls = files("ours"); });
  on_each(job, [](Member& member) {
    EXPECT_EQ(member.all_gather("all", std::to_string(member.rank()), {0, 1, 2}, soon()).at(2), "2");
  });
  leave_all(job);
}

TEST_F(Tls, KeepsOutWhoeverShowsNoCertificateOfTheAuthority) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 2);
  chief.tls = files("ours");
  chief.rendezvous_timeout = Seconds(2.0);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = std::async(std::launch::async, [&] { return failure(chief); });
  auto stranger = job_config(1, 2);
  stranger.rendezvous = published.get_future().get();
  stranger.rendezvous_timeout = Seconds(0.3);
  EXPECT_THAT(failure(stranger), AllOf(HasSubstr("run: "), HasSubstr(stranger.rendezvous)));
  stranger.tls = files("theirs");
  EXPECT_THAT(failure(stranger), AllOf(HasSubstr("run: "), HasSubstr(stranger.rendezvous)));
  stranger.tls = {path("theirs.pem"), path("theirs.key"), path("ours_ca.pem")};
  EXPECT_THAT(failure(stranger), AllOf(HasSubstr("run: "), HasSubstr(stranger.rendezvous)));
  EXPECT_THAT(zero.get(), HasSubstr("1 of 2 present"));
}

TEST_F(Tls, NamesTheFileThatItCannotUse) {
  const CapturedLog log;
  auto chief = job_config(0, 2);
  chief.tls = files("ours");
  chief.tls.key = path("missing.key");
  EXPECT_THAT(failure(chief), AllOf(HasSubstr("environment: "), HasSubstr("key " + path("missing.key")),
                                    HasSubstr("No such file")));
  chief.tls.key = "";
  EXPECT_THAT(failure(chief), AllOf(HasSubstr("usage: "), HasSubstr("three files")));
  chief.tls.key = path("names");
  EXPECT_THAT(failure(chief), AllOf(HasSubstr("environment: "), HasSubstr("TLS")));
}

}  // namespace
}  // namespace dtrain::cluster
