#include "cluster/sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "cluster/time_text.hpp"

namespace dtrain::cluster {

namespace {

// A socket address of either family.
struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

std::optional<Endpoint> endpoint(const std::string& ip, int port) {
  Endpoint made;
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.storage);
  if (::inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    made.size = sizeof(v4);
  } else if (::inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    made.size = sizeof(v6);
  } else {
    return std::nullopt;
  }
  return made;
}

std::string ip_text(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text = {};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

std::optional<Endpoint> local_endpoint(const Descriptor& socket) {
  Endpoint here;
  here.size = sizeof(here.storage);
  if (::getsockname(socket.get(), here.raw(), &here.size) != 0) return std::nullopt;
  return here;
}

std::string local_ip(const Descriptor& socket) {
  auto here = local_endpoint(socket);
  return here ? ip_text(here->raw(), here->size) : "";
}

// A port that nobody listens at may be the very one that the system picks for this end: the socket is then
// connected to itself.
bool meets_itself(const Descriptor& socket, const Endpoint& there) {
  const auto here = local_endpoint(socket);
  return here && here->size == there.size && std::memcmp(&here->storage, &there.storage, there.size) == 0;
}

// 0, or why not.
int bind_and_listen(const Descriptor& socket, Endpoint at) {
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), at.raw(), at.size) != 0 || ::listen(socket.get(), 1) != 0) return errno;
  return 0;
}

bool is_here(const std::string& ip) {
  auto at = endpoint(ip, 0);
  const Descriptor probe(::socket(at->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::bind(probe.get(), at->raw(), at->size) == 0;
}

// 0, or why no connection came about within the time.
int connect_within(const Descriptor& socket, Endpoint there, Seconds patience) {
  if (::connect(socket.get(), there.raw(), there.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{socket.get(), POLLOUT, 0};
  const auto deadline = Deadline::in(patience);
  while (true) {
    const double left = std::max(seconds(deadline.at() - Clock::now()), 0.0);
    const int ready = ::poll(&wait, 1, static_cast<int>(left * 1e3) + 1);
    if (ready > 0) break;
    if (ready == 0 || errno != EINTR) return ETIMEDOUT;
  }
  int problem = 0;
  socklen_t size = sizeof(problem);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
  return problem;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Resolved resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); problem != 0) {
    return {{}, fmt::format("the name does not resolve: {}", ::gai_strerror(problem))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
  Resolved resolved;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::string ip = ip_text(one->ai_addr, one->ai_addrlen);
    if (std::ranges::find(resolved.ips, ip) == resolved.ips.end()) resolved.ips.push_back(std::move(ip));
  }
  return resolved;
}

std::string interface_of(const std::string& host) {
  if (host == "localhost") return "127.0.0.1";
  return endpoint(host, 0) && is_here(host) ? host : all_interfaces;
}

Descriptor take_port(const std::string& ip, int port, const std::string& owner) {
  auto at = endpoint(ip, port);
  const bool everywhere = ip == all_interfaces;
  Descriptor socket(::socket(everywhere ? AF_INET6 : at->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  int problem = EAFNOSUPPORT;
  if (everywhere && socket.get() >= 0) {
    const int off = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    problem = bind_and_listen(socket, *endpoint("::", port));
  }
  if (problem == EAFNOSUPPORT || problem == EADDRNOTAVAIL) {
    socket = Descriptor(::socket(at->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    problem = bind_and_listen(socket, *at);
  }
  if (problem == 0) return socket;
  throw environment_error(
      fmt::format("{}: {}", owner,
                  problem == EADDRINUSE
                      ? fmt::format("port {} is in use by another process", port)
                      : fmt::format("cannot listen at port {}: {}", port, std::strerror(problem))),
      "stop that process, or give this task another port");
}

Contact try_connect(const config::Address& address, Seconds patience) {
  const Resolved resolved = resolve(address.host);
  Contact contact;
  contact.problem = resolved.problem;
  for (const auto& ip : resolved.ips) {
    const auto there = endpoint(ip, address.port);
    if (!there) continue;
    const Descriptor socket(::socket(there->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int problem = connect_within(socket, *there, patience);
    if (problem == 0 && meets_itself(socket, *there)) problem = ECONNREFUSED;
    if (problem == 0) return {true, ip, local_ip(socket), ""};
    contact.problem =
        problem == ETIMEDOUT ? "no answer within " + time_text(patience) : std::strerror(problem);
  }
  return contact;
}

std::string local_ip_towards(const std::string& ip) {
  auto there = endpoint(ip, 9);
  if (!there) return "";
  const Descriptor socket(::socket(there->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), there->raw(), there->size) != 0) return "";
  return local_ip(socket);
}

bool is_loopback(const std::string& ip) { return ip.starts_with("127.") || ip == "::1"; }

}  // namespace dtrain::cluster
