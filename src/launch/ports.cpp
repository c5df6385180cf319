#include "launch/ports.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace dtrain::launch {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); failure != 0) {
    throw usage_error(fmt::format("--host: '{}' is not known: {}", host, ::gai_strerror(failure)),
                      "give a name or an IP address of this machine, such as 127.0.0.1");
  }
  return {found, &::freeaddrinfo};
}

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

ReservedPort::ReservedPort(const std::string& host) : host_(host) {
  const Addresses addresses = resolve(host);
  const addrinfo& first = *addresses;
  socket_ = FileDescriptor(::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const bool bound = socket_.open() &&
                     ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                     ::bind(socket_.get(), first.ai_addr, first.ai_addrlen) == 0;
  if (!bound) {
    const int reason = errno;
    if (reason == EADDRNOTAVAIL) {
      throw usage_error(fmt::format("--host: '{}' is not an address of this machine", host),
                        "workers are started here: give one of its own addresses");
    }
    throw environment_error(fmt::format("no free port on {}: {}", host, std::strerror(reason)),
                            "end programs that hold many ports, or start fewer workers");
  }
  port_ = port_of(socket_.get());
}

std::string ReservedPort::address() const {
  const bool ipv6 = host_.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host_, port_) : fmt::format("{}:{}", host_, port_);
}

std::vector<ReservedPort> reserve_ports(const std::string& host, int count) {
  std::vector<ReservedPort> ports;
  for (int i = 0; i < count; ++i) ports.emplace_back(host);
  return ports;
}

}  // namespace dtrain::launch
