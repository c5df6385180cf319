#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "captured_log.hpp"
#include "cluster/control.grpc.pb.h"
#include "cluster/sockets.hpp"
#include "job.hpp"

namespace dtrain::cluster {
namespace {

using Random = std::mt19937;

std::string random_bytes(Random& random, std::size_t most) {
  std::string bytes(random() % most, ' ');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Descriptor connect_to(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there = {};
  there.sin_family = AF_INET;
  there.sin_port = htons(static_cast<std::uint16_t>(port));
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
  return socket;
}

// Bytes that are no gRPC, or begin like it and go wrong; some connections stay open and silent.
void send_garbage(int port, const std::atomic<bool>& over) {
  Random random(1);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  std::vector<Descriptor> silent;
  for (int turn = 0; !over; ++turn) {
    Descriptor socket = connect_to(port);
    std::string bytes;
    if (turn % 5 == 0) bytes = random_bytes(random, 3000);
    if (turn % 5 == 1) bytes = preface.substr(0, random() % preface.size());
    if (turn % 5 == 2) bytes = preface + random_bytes(random, 3000);
    if (turn % 5 == 3) bytes = preface + settings + random_bytes(random, 300);
    if (turn % 5 == 4) bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (silent.size() < 50 && turn % 3 == 0) silent.push_back(std::move(socket));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::shared_ptr<grpc::Channel> channel_to(int port) {
  return grpc::CreateChannel(fmt::format("ipv4:127.0.0.1:{}", port), grpc::InsecureChannelCredentials());
}

// Waits for the one operation that is in flight.
bool next(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool fine = false;
  return queue.Next(&tag, &fine) && fine;
}

// One call whose body is these bytes; the status that it ends with.
grpc::StatusCode call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                      const std::optional<std::string>& token, const std::string& body) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  if (token) context.AddMetadata("dtrain-token-bin", *token);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  next(queue);
  const grpc::Slice slice(body);
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  next(queue);
  stream->WritesDone(nullptr);
  next(queue);
  grpc::ByteBuffer answer;
  do {
    stream->Read(&answer, nullptr);
  } while (next(queue));
  grpc::Status status;
  stream->Finish(&status, nullptr);
  next(queue);
  return status.error_code();
}

// Well-formed calls with the wrong token, with bodies that are no message, and with messages out of order.
void call_wrongly(int port, const std::atomic<bool>& over) {
  Random random(2);
  const auto channel = channel_to(port);
  const std::string attend = "/dtrain.cluster.wire.Job/Attend";
  for (int turn = 0; !over; ++turn) {
    EXPECT_EQ(call(channel, attend, random_bytes(random, 40) + "x", random_bytes(random, 500)),
              grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(call(channel, attend, std::nullopt, random_bytes(random, 500)),
              grpc::StatusCode::UNAUTHENTICATED);
    call(channel, attend, "a secret", random_bytes(random, 500));
    EXPECT_EQ(call(channel, "/dtrain.cluster.wire.Job/Other", "a secret", ""),
              grpc::StatusCode::UNIMPLEMENTED);
    wire::ToChief early;
    early.mutable_question()->mutable_fail()->set_reason("not a member");
    call(channel, attend, "a secret", early.SerializeAsString());
    wire::ToChief hello;
    hello.mutable_hello()->set_build("build 1");
    hello.mutable_hello()->set_protocol(1);
    hello.mutable_hello()->set_world(3);
    hello.mutable_hello()->mutable_peer()->set_role("worker");
    hello.mutable_hello()->mutable_peer()->set_rank(static_cast<int>(random()));
    hello.mutable_hello()->mutable_peer()->set_host(random_bytes(random, 5000));
    call(channel, attend, "a secret", hello.SerializeAsString());
    if (turn == 3) call(channel, attend, "a secret", std::string(17U << 20U, '\n'));
  }
}

// Meetings and values, checked; some large.
void exchange(Member& member) {
  const int rank = member.rank();
  for (int round = 0; round < 40; ++round) {
    const std::string mine(static_cast<std::size_t>(round * 1000), static_cast<char>('a' + rank));
    const auto all = member.all_gather("round", mine, {0, 1, 2}, soon());
    ASSERT_EQ(all.size(), 3U);
    for (int other = 0; other < 3; ++other) {
      ASSERT_EQ(all[static_cast<std::size_t>(other)],
                std::string(static_cast<std::size_t>(round * 1000), static_cast<char>('a' + other)));
    }
    member.set(fmt::format("{}/{}", round, rank), mine);
    ASSERT_EQ(member.get(fmt::format("{}/{}", round, (rank + 1) % 3), soon()).size(), mine.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(Strangers, DoNotDisturbAJob) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 3);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = std::async(std::launch::async, [&] { return join(chief); });
  const std::string address = published.get_future().get();
  const int port = config::split_address(address).port;

  std::atomic<bool> over = false;
  auto garbage = std::async(std::launch::async, [&] { send_garbage(port, over); });
  auto calls = std::async(std::launch::async, [&] { call_wrongly(port, over); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<std::future<std::unique_ptr<Member>>> joining;
  for (int rank = 1; rank < 3; ++rank) {
    auto config = job_config(rank, 3);
    config.rendezvous = address;
    joining.push_back(std::async(std::launch::async, [config] { return join(config); }));
  }
  std::vector<std::unique_ptr<Member>> job;
  job.push_back(zero.get());
  for (auto& one : joining) job.push_back(one.get());

  on_each(job, exchange);
  on_each(job, [](Member& member) { EXPECT_FALSE(member.loss()); });
  over = true;
  garbage.get();
  calls.get();
  leave_all(job);
  for (const auto& member : job) EXPECT_FALSE(member->loss());
  EXPECT_THAT(log.text(), testing::HasSubstr("turned away a stranger from 127.0.0.1: no token"));
}

TEST(Strangers, AMemberThatTalksNonsenseIsLost) {
  const CapturedLog log;
  std::promise<std::string> published;
  auto chief = job_config(0, 2);
  chief.publish = [&](const std::string& at) { published.set_value(at); };
  auto zero = std::async(std::launch::async, [&] { return join(chief); });
  const auto channel = channel_to(config::split_address(published.get_future().get()).port);
  grpc::ClientContext context;
  context.AddMetadata("dtrain-token-bin", chief.token);
  const auto stub = wire::Job::NewStub(channel);
  const auto stream = stub->Attend(&context);
  wire::ToChief message;
  message.mutable_hello()->set_build(chief.build);
  message.mutable_hello()->set_protocol(1);
  message.mutable_hello()->set_world(2);
  message.mutable_hello()->mutable_peer()->set_role("worker");
  message.mutable_hello()->mutable_peer()->set_rank(1);
  message.mutable_hello()->mutable_peer()->set_index(1);
  ASSERT_TRUE(stream->Write(message));
  wire::ToMember answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.welcome().peers_size(), 2);

  message.mutable_question()->mutable_read_clock();
  const std::int64_t before = now_ns();
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_GE(answer.answer().clock_ns(), before);
  EXPECT_LE(answer.answer().clock_ns(), now_ns());

  message.mutable_question()->clear_read_clock();
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.loss().reason(), "asked what the chief does not understand");
  const auto member = zero.get();
  EXPECT_EQ(ended([&] { member->get("x", soon()); }), "worker 1 asked what the chief does not understand");
}

}  // namespace
}  // namespace dtrain::cluster
