#pragma once

#include <optional>
#include <string>

namespace dtrain::config {

struct Address {
  std::string host;  // without brackets
  int port = 0;
};

// Why a text cannot be host:port with a port from 1 to 65535 (such as "it has no port"); nothing where it
// can. An IPv6 host stands in brackets.
std::optional<std::string> why_no_address(const std::string& text);

// Of a text that is an address. Port 0 is taken too: it asks for a free one.
Address split_address(const std::string& text);

// "host:port", with brackets where the host needs them.
std::string join_address(const std::string& host, int port);

}  // namespace dtrain::config
