#include "launch/ports.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

#include "base/error.hpp"

namespace dtrain::launch {
namespace {

// As servers open their port, gRPC's among them.
bool can_listen(int port, in_addr_t host) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.get(), 1) == 0;
}

TEST(Ports, AreForTheProcessThatIsToldOfThem) {
  const ReservedPort port("127.0.0.1");
  EXPECT_EQ(port.address(), "127.0.0.1:" + std::to_string(port.port()));
  EXPECT_TRUE(can_listen(port.port(), INADDR_LOOPBACK));
  EXPECT_TRUE(can_listen(port.port(), INADDR_ANY));
}

TEST(Ports, AreNotGivenTwice) {
  std::vector<std::vector<ReservedPort>> jobs;
  std::set<int> numbers;
  for (int job = 0; job < 10; ++job) {
    jobs.push_back(reserve_ports("127.0.0.1", 20));
    for (const auto& port : jobs.back()) numbers.insert(port.port());
  }
  EXPECT_EQ(numbers.size(), 200U);
  EXPECT_FALSE(numbers.contains(0));
}

TEST(Ports, AreOfThisMachine) {
  EXPECT_THROW(ReservedPort("192.0.2.1"), Error);
  EXPECT_THROW(ReservedPort("no host"), Error);
}

}  // namespace
}  // namespace dtrain::launch
