#pragma once

#include <grpcpp/support/channel_arguments.h>

#include "parameter_server/message.hpp"

namespace dtrain::parameter_server {

inline constexpr const char* method = "/dtrain.ParameterServer/Exchange";

// Before the first server or client of a process: no lines of gRPC's own on stderr, and memory that messages
// were received into is kept for the next ones. Given back to the kernel and asked for again, it is zeroed
// page by page every time, which takes as long as sending.
void set_up_transport();

// Large pieces on the wire, as few system calls as can be; sizes from bench_parameter_server.
template <class Set>
void set_transport_arguments(const Set& set) {
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(max_message));
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 512 << 10);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20);
}

}  // namespace dtrain::parameter_server
