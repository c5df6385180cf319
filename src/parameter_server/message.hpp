#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "parameter_server/shard.hpp"

namespace dtrain::parameter_server {

// What goes between a worker and a shard: a header, and after some kinds a payload. Requests are answered by
// `done`, by values of chunks, or by a failure; push and write come chunk by chunk.
enum class Kind : std::uint16_t {
  hello = 1,  // first of a call; count and agreement are those of the table
  write,      // payload: values of a chunk of `part`; not answered
  settle,     // step: times
  read,       // of `part`; answered by its chunks
  admit,
  push,      // payload: gradients of a chunk; each is answered by that chunk's weights
  catch_up,  // step: version; answered by chunks of weights
  rest,      // not answered
  done,
  values,   // payload: a chunk of a part; step: version
  failure,  // payload: text
};

// As it lies in a message, little-endian. A field has its meaning only in kinds that use it.
struct Header {
  std::uint32_t magic = 0;
  std::uint16_t format = 0;
  Kind kind = Kind::hello;
  std::uint64_t table = 0;  // hash of its name
  std::uint32_t worker = 0;
  std::uint32_t part = 0;
  std::uint32_t chunk = 0;
  std::uint32_t count = 0;  // bytes of payload
  std::uint64_t step = 0;
  std::uint64_t own_steps = 0;
  std::uint64_t agreement = 0;  // hash of what both sides must have been told alike
  std::int32_t images = 0;
  std::int32_t step_images = 0;
  std::int32_t staleness = 0;
  std::uint8_t finite = 1;
  std::uint8_t weights_finite = 1;
  std::uint8_t in_time = 1;
  std::uint8_t category = 0;   // of a failure
  double wait_seconds = 0.0;   // how long the server may wait for others
  double learning_rate = 0.0;  // of the update, and what follows
  double momentum = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double epsilon = 0.0;
  double weight_decay = 0.0;
  double gradient_unscale = 0.0;
  std::int64_t optimizer_step = 0;
};
static_assert(sizeof(Header) == 144 && std::is_trivially_copyable_v<Header>);

inline constexpr std::size_t max_text = 2000;
inline constexpr std::size_t max_message = sizeof(Header) + Storage::chunk_floats * sizeof(float);
inline constexpr double max_wait_seconds = 7.0 * 24 * 3600;

std::uint64_t hash_of(const std::string& name);
std::uint64_t agreement_of(const TableConfig& config, int shard, int shards);

Header make_header(Kind kind, std::uint64_t table, int worker);
void put(Header& header, const PushHead& head);
PushHead push_head(const Header& header);
bool sane(const PushHead& head);  // numbers that an update can be made with

// A message of its own memory; one whose payload stays where it is until `owner` has been let go by gRPC.
grpc::ByteBuffer encode(const Header& header, std::string_view text = {});
grpc::ByteBuffer encode(const Header& header, std::span<const float> payload, std::shared_ptr<void> owner);
Header failure_header(const Error& error, std::string& text);  // and what goes behind it

// A message as it came, in pieces.
class Received {
 public:
  explicit Received(const grpc::ByteBuffer& buffer);
  const std::optional<Header>& header() const { return header_; }  // none: it is not one of ours
  // Bytes behind the header, which are header()->count.
  void copy_payload(void* to) const;
  std::string text() const;

 private:
  std::vector<grpc::Slice> slices_;
  std::optional<Header> header_;
};

}  // namespace dtrain::parameter_server
