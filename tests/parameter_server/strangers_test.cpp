// Whoever can reach the port may send anything. The server lives, and a worker beside it notices nothing.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "base/random.hpp"
#include "parameter_server/message.hpp"
#include "tables.hpp"

namespace dtrain::parameter_server {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr const char* token = "a secret";
constexpr const char* exchange = "/dtrain.ParameterServer/Exchange";

// What a stranger was told in the end.
struct Answer {
  grpc::Status status;
  std::string failure;  // text of the last failure
  int answers = 0;
};

class Strangers : public ::testing::Test {
 protected:
  void SetUp() override {
    config = table(100, 2, {.async = true});
    server = serve("127.0.0.1:0", {.token = token});
    server->open(config, 0, 1);
    real.emplace(connect({{server->address(), token}}, config, 0, {}), config.size);
    real->initialise(0.0F);
  }

  void TearDown() override {
    const Push push = real->push(1.0F);
    EXPECT_EQ(push.version, 1U);
    EXPECT_EQ(push.staleness, 0);
    EXPECT_EQ(real->weight(), -1.0F);
  }

  // Sends messages one after another, and takes what comes until the call ends.
  Answer send(const std::vector<grpc::ByteBuffer>& messages, const std::string& with_token = token,
              const std::string& method = exchange) {
    grpc::GenericStub stub(grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("dtrain-token-bin", with_token);
    Answer answer;
    const auto call = stub.PrepareCall(&context, method, &queue);
    const auto done = [&] {
      void* tag = nullptr;
      bool fine = false;
      return queue.Next(&tag, &fine) && fine;
    };
    call->StartCall(nullptr);
    bool open = done();
    for (const auto& message : messages) {
      if (!open) break;
      call->Write(message, nullptr);
      open = done();
    }
    if (open) {
      call->WritesDone(nullptr);
      done();
    }
    while (true) {
      grpc::ByteBuffer incoming;
      call->Read(&incoming, nullptr);
      if (!done()) break;
      ++answer.answers;
      const Received received(incoming);
      if (received.header() && received.header()->kind == Kind::failure) answer.failure = received.text();
    }
    call->Finish(&answer.status, nullptr);
    done();
    EXPECT_NE(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    return answer;
  }

  Header header(Kind kind) const {
    Header made = make_header(kind, hash_of(config.name), 1);
    made.agreement = agreement_of(config, 0, 1);
    made.wait_seconds = 0.05;
    return made;
  }
  grpc::ByteBuffer hello() const { return encode(header(Kind::hello)); }

  static grpc::ByteBuffer raw(std::string_view bytes) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    return {&slice, 1};
  }

  TableConfig config;
  std::unique_ptr<Server> server;
  std::optional<Worker> real;
};

TEST_F(Strangers, WithoutTheTokenAreRefused) {
  for (const char* wrong : {"", "a secre", "a secret!", "A secret"}) {
    const Answer answer = send({hello()}, wrong);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(answer.answers, 0);
  }
  const auto client = connect({{server->address(), "wrong"}}, config, 1, {});
  std::vector<float> weights(100);
  try {
    client->initialise(weights, soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("refuses this worker: not of this job"));
    EXPECT_THAT(error.advice(), HasSubstr("DTRAIN_JOB_TOKEN"));
  }
}

TEST_F(Strangers, ThatCallAnotherMethodAreTold) {
  EXPECT_EQ(send({hello()}, token, "/some.Other/Call").status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Strangers, OfAnotherTableOrOtherOptionsAreTold) {
  Header other = header(Kind::hello);
  other.table = 77;
  EXPECT_THAT(send({encode(other)}).failure, HasSubstr("has not opened this table for 0.05 s"));
  other = header(Kind::hello);
  ++other.agreement;
  EXPECT_THAT(send({encode(other)}).failure,
              HasSubstr("worker 1 and the parameter server were not told the same"));
}

TEST_F(Strangers, CannotBeAWorkerThatIsThereOrNotOne) {
  Header twice = header(Kind::hello);
  twice.worker = 0;
  EXPECT_THAT(send({encode(twice)}).failure, HasSubstr("connected already"));
  twice.worker = 2;
  EXPECT_THAT(send({encode(twice)}).failure, HasSubstr("a worker that is not one"));
  twice.worker = 0xffffffff;
  EXPECT_THAT(send({encode(twice)}).failure, HasSubstr("a worker that is not one"));
}

TEST_F(Strangers, HaveToSayHelloFirst) {
  EXPECT_THAT(send({encode(header(Kind::read))}).failure, HasSubstr("does not say what it is"));
}

TEST_F(Strangers, CannotSendHeadersThatAreCutOff) {
  const Header whole = header(Kind::hello);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4}, sizeof whole - 1}) {
    EXPECT_THAT(send({raw({reinterpret_cast<const char*>(&whole), size})}).failure, HasSubstr("not one"));
  }
}

TEST_F(Strangers, CannotClaimMoreThanTheySend) {
  Header huge = header(Kind::hello);
  huge.count = 0xffffffff;
  EXPECT_THAT(send({raw({reinterpret_cast<const char*>(&huge), sizeof huge})}).failure, HasSubstr("not one"));
  Header push = header(Kind::push);
  put(push, {.step = 1, .images = 1, .step_images = 1, .update = descent()});
  const std::vector<float> values(101, 9.0F);
  EXPECT_THAT(send({hello(), encode(push, std::span(values).first(99), nullptr)}).failure,
              HasSubstr("another size"));
  EXPECT_THAT(send({hello(), encode(push, values, nullptr)}).failure, HasSubstr("another size"));
  EXPECT_EQ(send({hello(), raw(std::string(max_message + 1, 'x'))}).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(Strangers, CannotPushNumbersThatAreNone) {
  const std::vector<float> values(100, 9.0F);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [&](const std::function<void(Header&)>& spoil) {
    Header push = header(Kind::push);
    put(push, {.step = 1, .images = 1, .step_images = 1, .update = descent()});
    spoil(push);
    EXPECT_NE(send({hello(), encode(push, values, nullptr)}).failure, "");
  };
  refused([&](Header& push) { push.learning_rate = nan; });
  refused([&](Header& push) { push.gradient_unscale = std::numeric_limits<double>::infinity(); });
  refused([&](Header& push) { push.beta2 = -0.5; });
  refused([&](Header& push) { push.optimizer_step = 0; });
  refused([&](Header& push) { push.images = -1; });
  refused([&](Header& push) { push.chunk = 1; });
  refused([&](Header& push) { push.worker = 0; });
  refused([&](Header& push) { push.wait_seconds = nan; });
  refused([&](Header& push) { push.wait_seconds = 1e300; });
  refused([&](Header& push) { push.kind = static_cast<Kind>(99); });
  Header write = header(Kind::write);
  EXPECT_THAT(send({hello(), encode(write, values, nullptr)}).failure, HasSubstr("does not give them"));
  Header read = header(Kind::read);
  read.part = 7;
  EXPECT_THAT(send({hello(), encode(read)}).failure, HasSubstr("a part that is not there"));
}

TEST_F(Strangers, SendAnything) {
  Random random(2026);
  for (int attempt = 0; attempt < 150; ++attempt) {
    std::vector<grpc::ByteBuffer> messages;
    if (random.below(2) == 0) messages.push_back(hello());
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      std::string bytes(random.below(700), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.below(256));
      // Often nearly right: a header with some bytes turned over.
      if (random.below(2) == 0) {
        Header near = header(static_cast<Kind>(random.below(12)));
        near.count = static_cast<std::uint32_t>(bytes.size());
        std::string start(reinterpret_cast<const char*>(&near), sizeof near);
        for (std::uint64_t flips = random.below(4); flips > 0; --flips) {
          start[16 + random.below(sizeof near - 16)] ^= static_cast<char>(1U << random.below(8));
        }
        if (near.kind == Kind::push) continue;  // a sound one would count
        bytes = start + bytes;
      }
      messages.push_back(raw(bytes));
    }
    send(messages);
  }
}

// Not even gRPC.
TEST_F(Strangers, SendBytesToTheSocket) {
  Random random(7);
  const std::string address = server->address();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int attempt = 0; attempt < 30; ++attempt) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    std::string bytes = random.below(2) == 0 ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (int i = 0; i < 200; ++i) bytes += static_cast<char>(random.below(256));
    ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::close(socket);
  }
}

}  // namespace
}  // namespace dtrain::parameter_server
