#include "cluster/credentials.hpp"

#include <grpc/support/log.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>

#include "base/error.hpp"

namespace dtrain::cluster {

namespace {

std::string read_file(const std::string& path, const std::string& what) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file && !text.empty()) return text;
  throw environment_error(fmt::format("cannot read the TLS {} {}: {}", what, path,
                                      file.is_open() ? "it is empty or a folder" : std::strerror(errno)),
                          "give a file of the PEM format that this user can read");
}

struct Texts {
  std::string certificate;
  std::string key;
  std::string authority;
};

// Nothing without TLS.
std::optional<Texts> read(const TlsFiles& tls) {
  if (tls.certificate.empty() && tls.key.empty() && tls.authority.empty()) return std::nullopt;
  if (tls.certificate.empty() || tls.key.empty() || tls.authority.empty()) {
    throw usage_error("TLS needs three files: certificate, key and the authority's certificate",
                      "give all three, or none");
  }
  return Texts{read_file(tls.certificate, "certificate"), read_file(tls.key, "key"),
               read_file(tls.authority, "authority")};
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& tls) {
  const auto texts = read(tls);
  if (!texts) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = texts->authority;
  options.pem_key_cert_pairs.push_back({texts->key, texts->certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& tls) {
  const auto texts = read(tls);
  if (!texts) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = texts->authority;
  options.pem_private_key = texts->key;
  options.pem_cert_chain = texts->certificate;
  return grpc::SslCredentials(options);
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

}  // namespace dtrain::cluster
