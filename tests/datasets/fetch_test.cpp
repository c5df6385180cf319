#include "datasets/fetch.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <unistd.h>

#include "datasets/sha256.hpp"
#include "fixtures.hpp"
#include "http_server.hpp"

namespace dtrain::datasets {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Member {
  std::string name;
  std::string content;
  mode_t type = AE_IFREG;
};

void write_archive(const fs::path& path, const std::vector<Member>& members) {
  archive* writer = archive_write_new();
  archive_write_add_filter_gzip(writer);
  archive_write_set_format_ustar(writer);
  ASSERT_EQ(archive_write_open_filename(writer, path.c_str()), ARCHIVE_OK);
  for (const Member& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_filetype(entry, member.type);
    archive_entry_set_perm(entry, 0644);
    if (member.type == AE_IFLNK) {
      archive_entry_set_symlink(entry, member.content.c_str());
      archive_entry_set_size(entry, 0);
    } else {
      archive_entry_set_size(entry, static_cast<la_int64_t>(member.content.size()));
    }
    archive_write_header(writer, entry);
    if (member.type == AE_IFREG) archive_write_data(writer, member.content.data(), member.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
}

std::vector<Member> official_members() {
  std::vector<Member> members = {{"cifar-10-batches-bin/", "", AE_IFDIR}};
  for (int i = 1; i <= 5; ++i) {
    members.push_back({"cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", make_records(6, i)});
  }
  members.push_back({"cifar-10-batches-bin/test_batch.bin", make_records(6, 9)});
  members.push_back({"cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"});
  return members;
}

class Fetch : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("no_proxy", "*", 1);
    pack(official_members());
  }

  void pack(const std::vector<Member>& members) {
    write_archive(source_ / "small.tar.gz", members);
    body_ = read_file(source_ / "small.tar.gz");
    config_.directory = target_.path();
    config_.archive = {.url = "file://" + (source_ / "small.tar.gz").string(),
                       .bytes = body_.size(),
                       .sha256 = sha256_of_file(source_ / "small.tar.gz")};
    config_.stall = Seconds(5.0);
  }

  HttpServer& serve(HttpServer::Behaviour behaviour = {}) {
    server_ = std::make_unique<HttpServer>(body_, behaviour);
    config_.archive.url = server_->url("small.tar.gz");
    return *server_;
  }

  fs::path part() const { return target_ / "small.tar.gz.part"; }
  std::vector<std::string> left_behind() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(target_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory source_;
  TemporaryDirectory target_;
  std::string body_;
  FetchConfig config_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Fetch, Sha256OfKnownText) {
  write_file(source_ / "abc", "abc");
  EXPECT_EQ(sha256_of_file(source_ / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_file(source_ / "none", "");
  EXPECT_EQ(sha256_of_file(source_ / "none"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Fetch, DownloadsVerifiesAndUnpacks) {
  serve();
  const FetchResult result = fetch(config_);
  EXPECT_FALSE(result.already_there);
  EXPECT_EQ(result.bytes_received, body_.size());
  EXPECT_EQ(result.files, target_ / "cifar-10-batches-bin");
  EXPECT_THAT(left_behind(), testing::ElementsAre("cifar-10-batches-bin"));
  const Cifar10 data = open_cifar10(result.files.string(), false, 0);
  EXPECT_EQ(data.train->size(), 30U);
  EXPECT_EQ(data.class_names[0], "a");
  EXPECT_EQ(read_file(result.files / "data_batch_2.bin"), make_records(6, 2));
}

TEST_F(Fetch, TakesFileAddresses) { EXPECT_EQ(fetch(config_).bytes_received, body_.size()); }

TEST_F(Fetch, SecondTimeThereIsNothingToDo) {
  HttpServer& server = serve();
  fetch(config_);
  const FetchResult again = fetch(config_);
  EXPECT_TRUE(again.already_there);
  EXPECT_EQ(again.bytes_received, 0U);
  EXPECT_EQ(server.offsets().size(), 1U);
}

TEST_F(Fetch, FilesThatChangedSinceAreFetchedAgain) {
  fetch(config_);
  write_file(target_ / "cifar-10-batches-bin" / "data_batch_2.bin", make_records(6, 8));
  EXPECT_FALSE(fetch(config_).already_there);
  EXPECT_EQ(read_file(target_ / "cifar-10-batches-bin" / "data_batch_2.bin"), make_records(6, 2));
}

TEST_F(Fetch, FilesOfOthersAreLeftAlone) {
  write_batches(target_ / "cifar-10-batches-bin", 2);
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr("cifar-10-batches-bin"));
  EXPECT_EQ(open_cifar10(target_.path().string(), false, 0).train->size(), 10U);
}

TEST_F(Fetch, GoesOnAfterABrokenConnection) {
  serve({.cut_after = 1000});
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.advice(), HasSubstr("go on from byte 1000"));
  EXPECT_THAT(left_behind(), testing::ElementsAre("small.tar.gz.part"));
  EXPECT_EQ(fs::file_size(part()), 1000U);

  HttpServer& whole = serve();
  const FetchResult result = fetch(config_);
  EXPECT_EQ(result.resumed_from, 1000U);
  EXPECT_EQ(result.bytes_received, body_.size() - 1000);
  EXPECT_THAT(whole.offsets(), testing::ElementsAre(1000U));
  EXPECT_EQ(open_cifar10(result.files.string(), false, 0).train->size(), 30U);
}

TEST_F(Fetch, StartsAgainWhereTheServerKnowsNoRanges) {
  write_file(part(), body_.substr(0, 500));
  serve({.ranges = false});
  const FetchResult result = fetch(config_);
  EXPECT_EQ(result.resumed_from, 0U);
  EXPECT_EQ(result.bytes_received, body_.size());
}

TEST_F(Fetch, WholePartNeedsNoNetwork) {
  write_file(part(), body_);
  HttpServer& server = serve();
  EXPECT_EQ(fetch(config_).bytes_received, 0U);
  EXPECT_TRUE(server.offsets().empty());
}

TEST_F(Fetch, PartThatIsTooLongIsStartedAgain) {
  write_file(part(), body_ + "x");
  serve();
  EXPECT_EQ(fetch(config_).bytes_received, body_.size());
}

TEST_F(Fetch, ArchivePlacedByHandIsUsedAndKept) {
  fs::copy_file(source_ / "small.tar.gz", target_ / "small.tar.gz");
  config_.archive.url = "http://127.0.0.1:1/small.tar.gz";
  EXPECT_EQ(fetch(config_).bytes_received, 0U);
  EXPECT_THAT(left_behind(), testing::ElementsAre("cifar-10-batches-bin", "small.tar.gz"));
}

TEST_F(Fetch, WrongChecksumSaysBoth) {
  const std::string expected(64, 'a');
  const std::string actual = config_.archive.sha256;
  config_.archive.sha256 = expected;
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(expected), HasSubstr(actual)));
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(Fetch, ShorterFileThanExpected) {
  config_.archive.bytes += 5;
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(body_.size()) + " bytes, expected " +
                                      std::to_string(body_.size() + 5)));
}

TEST_F(Fetch, LongerFileThanExpected) {
  config_.archive.bytes -= 5;
  EXPECT_EQ(error_of([&] { fetch(config_); }).category(), ErrorCategory::data);
}

TEST_F(Fetch, NoServerIsAnEnvironmentErrorThatSaysHowToGoWithout) {
  config_.archive.url = "http://127.0.0.1:1/small.tar.gz";
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), HasSubstr("127.0.0.1"));
  EXPECT_THAT(error.advice(), AllOf(HasSubstr("by hand"), HasSubstr((target_ / "small.tar.gz").string()),
                                    HasSubstr(config_.archive.sha256)));
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(Fetch, RefusalOfTheServerNamesItsStatus) {
  serve({.status = 404});
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), HasSubstr("404"));
}

TEST_F(Fetch, SilentServerIsGivenUp) {
  serve({.stall_after = 100});
  config_.stall = Seconds(0.2);
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), HasSubstr("no byte came for 0.2 s"));
  EXPECT_EQ(fs::file_size(part()), 100U);
}

TEST_F(Fetch, InterruptionLeavesThePart) {
  std::atomic<bool> stop{false};
  config_.stop = &stop;
  config_.stall = Seconds(20);
  serve({.stall_after = 700});
  const auto stop_at_some_bytes = [&](FetchStage, std::uint64_t done, std::uint64_t) { stop = done >= 700; };
  EXPECT_THROW(fetch(config_, stop_at_some_bytes), Interrupted);
  EXPECT_THAT(left_behind(), testing::ElementsAre("small.tar.gz.part"));
  EXPECT_EQ(fs::file_size(part()), 700U);
}

TEST_F(Fetch, InterruptionWhileUnpackingLeavesOnlyThePart) {
  const auto stop_at_unpacking = [](FetchStage stage, std::uint64_t, std::uint64_t) {
    if (stage == FetchStage::unpack) throw Interrupted();
  };
  EXPECT_THROW(fetch(config_, stop_at_unpacking), Interrupted);
  EXPECT_THAT(left_behind(), testing::ElementsAre("small.tar.gz.part"));
  EXPECT_EQ(fetch(config_).bytes_received, 0U);
}

TEST_F(Fetch, ProgressEndsAtTheWhole) {
  std::uint64_t downloaded = 0;
  std::uint64_t verified = 0;
  fetch(config_, [&](FetchStage stage, std::uint64_t done, std::uint64_t total) {
    if (stage == FetchStage::unpack || total != body_.size()) return;
    (stage == FetchStage::download ? downloaded : verified) = done;
  });
  EXPECT_EQ(downloaded, body_.size());
  EXPECT_EQ(verified, body_.size());
}

TEST_F(Fetch, MembersCannotLeaveTheFolder) {
  auto members = official_members();
  members.push_back({"../evil", "x"});
  members.push_back({"/tmp/dtrain-evil", "x"});
  members.push_back({"cifar-10-batches-bin/../../test_batch.bin", make_records(6, 9)});
  members.push_back({"cifar-10-batches-bin/readme.html", "/etc/passwd", AE_IFLNK});
  pack(members);
  fetch(config_);
  EXPECT_THAT(left_behind(), testing::ElementsAre("cifar-10-batches-bin"));
  EXPECT_FALSE(fs::exists("/tmp/dtrain-evil"));
  EXPECT_FALSE(fs::exists(target_.path().parent_path() / "evil"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(target_ / "cifar-10-batches-bin" / "readme.html")));
}

TEST_F(Fetch, ArchiveWithoutOneOfTheFiles) {
  auto members = official_members();
  members.erase(members.begin() + 3);
  pack(members);
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr("lacks data_batch_3.bin"));
  EXPECT_FALSE(fs::exists(target_ / "cifar-10-batches-bin"));
}

TEST_F(Fetch, ArchiveOfDamagedRecords) {
  auto members = official_members();
  members[2].content[0] = 55;
  pack(members);
  EXPECT_THAT(error_of([&] { fetch(config_); }).what(), HasSubstr("label 55"));
  EXPECT_FALSE(fs::exists(target_ / "cifar-10-batches-bin"));
}

TEST_F(Fetch, ArchiveThatIsNone) {
  write_file(source_ / "small.tar.gz", "not an archive at all");
  config_.archive.bytes = 21;
  config_.archive.sha256 = sha256_of_file(source_ / "small.tar.gz");
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::data);
  EXPECT_THAT(error.what(), HasSubstr("damaged archive"));
}

TEST_F(Fetch, TooLittleRoomIsSaidBeforeTheDownload) {
  config_.archive.bytes = std::uint64_t{1} << 60;
  HttpServer& server = serve();
  const Error error = error_of([&] { fetch(config_); });
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), HasSubstr("are free"));
  EXPECT_TRUE(server.offsets().empty());
}

// The nearest to a full disk that a test can have: a limit on file size.
TEST_F(Fetch, DiskThatFillsUp) {
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {.rlim_cur = 2000, .rlim_max = old.rlim_max};
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Error error = error_of([&] { fetch(config_); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(part().string()), HasSubstr("cannot write")));
}

TEST_F(Fetch, FolderThatIsAFile) {
  write_file(target_ / "x", "");
  config_.directory = target_ / "x";
  EXPECT_EQ(error_of([&] { fetch(config_); }).category(), ErrorCategory::environment);
}

TEST_F(Fetch, TwoAtOnceInOneFolder) {
  const int fd = ::open(part().c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const Error error = error_of([&] { fetch(config_); });
  ::close(fd);
  EXPECT_EQ(error.category(), ErrorCategory::environment);
  EXPECT_THAT(error.what(), HasSubstr("another fetch"));
}

}  // namespace
}  // namespace dtrain::datasets
