#include "config/address.hpp"

#include <charconv>

namespace dtrain::config {

namespace {

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> why_no_address(const std::string& text) {
  if (text.find("://") != std::string::npos) return "it is a URL, not host:port";
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return "it has no port";
  const std::string host = text.substr(0, colon);
  if (host.empty()) return "it has no host";
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string::npos) return "an IPv6 host belongs in brackets";
  if (!bracketed && host.find_first_of("[]") != std::string::npos) return "its host is not a name";
  if (host.find_first_of(" \t\r\n/@,") != std::string::npos) return "its host is not a name";
  const auto port = whole_number(std::string_view(text).substr(colon + 1));
  if (!port) return "its port is not a number";
  if (*port < 1 || *port > 65535) return "its port is not from 1 to 65535";
  return std::nullopt;
}

Address split_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return {text, 0};
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {std::move(host), whole_number(std::string_view(text).substr(colon + 1)).value_or(0)};
}

std::string join_address(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

}  // namespace dtrain::config
