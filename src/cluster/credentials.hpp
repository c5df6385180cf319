#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "cluster/member.hpp"

namespace dtrain::cluster {

// The key of a call's metadata under which the job's token goes.
inline constexpr const char* token_key = "dtrain-token-bin";

// Plain without files; else both sides must show a certificate. Usage error where only some files are given,
// environment error that names the file that cannot be read.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& tls);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& tls);

// gRPC writes to stderr of every connection that breaks; what matters is said by the job. GRPC_VERBOSITY
// brings it back.
void quiet_grpc();

}  // namespace dtrain::cluster
