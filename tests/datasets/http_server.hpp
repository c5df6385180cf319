#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dtrain::datasets {

// Serves one body on 127.0.0.1, one connection after the other, until destroyed.
class HttpServer {
 public:
  struct Behaviour {
    bool ranges = true;
    int status = 0;                             // other than 0: answers with this status and nothing else
    std::size_t cut_after = ~std::size_t{0};    // closes the connection after so many bytes of the body
    std::size_t stall_after = ~std::size_t{0};  // sends so many bytes, then nothing until destroyed
  };

  HttpServer(std::string body, Behaviour behaviour) : body_(std::move(body)), behaviour_(behaviour) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), length);
    ::listen(listener_, 4);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& name) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }
  std::vector<std::size_t> offsets() const {  // where each request wanted to start
    const std::lock_guard lock(mutex_);
    return offsets_;
  }

 private:
  void serve() {
    while (!stopping_) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      answer(connection);
      ::close(connection);
    }
  }

  static std::string read_request(int connection) {
    std::string request;
    char buffer[1024];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) break;
      request.append(buffer, static_cast<std::size_t>(count));
    }
    return request;
  }

  static void send_all(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void answer(int connection) {
    const std::string request = read_request(connection);
    const auto range = request.find("Range: bytes=");
    const std::size_t wanted = range == std::string::npos ? 0 : std::stoul(request.substr(range + 13));
    {
      const std::lock_guard lock(mutex_);
      offsets_.push_back(wanted);
    }
    if (behaviour_.status != 0) {
      send_all(connection,
               "HTTP/1.1 " + std::to_string(behaviour_.status) + " No\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    const std::size_t start = behaviour_.ranges ? std::min(wanted, body_.size()) : 0;
    const std::string rest = body_.substr(start);
    std::string head = start > 0 ? "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                                       std::to_string(start) + "-" + std::to_string(body_.size() - 1) + "/" +
                                       std::to_string(body_.size()) + "\r\n"
                                 : std::string("HTTP/1.1 200 OK\r\n");
    head += "Connection: close\r\nContent-Length: " + std::to_string(rest.size()) + "\r\n\r\n";
    send_all(connection, head);
    send_all(connection,
             std::string_view(rest).substr(0, std::min(behaviour_.cut_after, behaviour_.stall_after)));
    while (behaviour_.stall_after < rest.size() && !stopping_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::string body_;
  Behaviour behaviour_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<std::size_t> offsets_;
  std::thread thread_;
};

}  // namespace dtrain::datasets
