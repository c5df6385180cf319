#include "parameter_server/message.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.hpp"

namespace dtrain::parameter_server {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t magic = 0x53505444;  // "DTPS"
constexpr std::uint16_t format = 1;

// Calls `visit(data, size)` for the pieces of [from, from + count).
template <class Visit>
void for_each_piece(const std::vector<grpc::Slice>& slices, std::size_t from, std::size_t count,
                    const Visit& visit) {
  for (const grpc::Slice& slice : slices) {
    if (count == 0) return;
    if (from >= slice.size()) {
      from -= slice.size();
      continue;
    }
    const std::size_t size = std::min(slice.size() - from, count);
    visit(slice.begin() + from, size);
    from = 0;
    count -= size;
  }
}

void copy_pieces(const std::vector<grpc::Slice>& slices, std::size_t from, std::size_t count, void* to) {
  auto* next = static_cast<std::uint8_t*>(to);
  for_each_piece(slices, from, count, [&](const std::uint8_t* data, std::size_t size) {
    std::memcpy(next, data, size);
    next += size;
  });
}

void let_go(void* owner) { delete static_cast<std::shared_ptr<void>*>(owner); }

bool in(double value, double low, double high) { return value >= low && value <= high; }  // false for NaN

}  // namespace

std::uint64_t hash_of(const std::string& name) {
  Hash hash;
  hash.add(std::span<const char>(name));
  return hash.value();
}

std::uint64_t agreement_of(const TableConfig& config, int shard, int shards) {
  const std::int64_t numbers[] = {static_cast<std::int64_t>(config.size),
                                  config.workers,
                                  config.policy.async ? 1 : 0,
                                  config.policy.staleness.value_or(-1),
                                  config.policy.backups,
                                  shard,
                                  shards,
                                  static_cast<std::int64_t>(Storage::chunk_floats)};
  Hash hash;
  hash.add(std::span<const std::int64_t>(numbers));
  hash.add(std::span<const char>(config.optimizer));
  return hash.value();
}

Header make_header(Kind kind, std::uint64_t table, int worker) {
  Header header;
  header.magic = magic;
  header.format = format;
  header.kind = kind;
  header.table = table;
  header.worker = static_cast<std::uint32_t>(worker);
  return header;
}

void put(Header& header, const PushHead& head) {
  header.step = head.step;
  header.own_steps = head.own_steps;
  header.images = head.images;
  header.step_images = head.step_images;
  header.finite = head.finite ? 1 : 0;
  header.learning_rate = head.update.learning_rate;
  header.momentum = head.update.momentum;
  header.beta1 = head.update.beta1;
  header.beta2 = head.update.beta2;
  header.epsilon = head.update.epsilon;
  header.weight_decay = head.update.weight_decay;
  header.gradient_unscale = head.update.gradient_unscale;
  header.optimizer_step = head.update.step;
}

PushHead push_head(const Header& header) {
  return {.step = header.step,
          .own_steps = header.own_steps,
          .images = header.images,
          .step_images = header.step_images,
          .finite = header.finite != 0,
          .update = {.learning_rate = header.learning_rate,
                     .momentum = header.momentum,
                     .beta1 = header.beta1,
                     .beta2 = header.beta2,
                     .epsilon = header.epsilon,
                     .weight_decay = header.weight_decay,
                     .gradient_unscale = header.gradient_unscale,
                     .step = header.optimizer_step}};
}

bool sane(const PushHead& head) {
  const kernels::OptimizerStep& update = head.update;
  constexpr double most = 1e30;
  return head.images >= 0 && head.step_images >= 0 && in(update.learning_rate, 0.0, most) &&
         in(update.momentum, 0.0, 1.0) && in(update.beta1, 0.0, 1.0) && in(update.beta2, 0.0, 1.0) &&
         in(update.epsilon, 0.0, most) && in(update.weight_decay, 0.0, most) &&
         in(update.gradient_unscale, 1e-30, most) && update.step >= 1;
}

grpc::ByteBuffer encode(const Header& header, std::string_view text) {
  Header whole = header;
  whole.count = static_cast<std::uint32_t>(text.size());
  const grpc::Slice slices[] = {grpc::Slice(&whole, sizeof whole), grpc::Slice(text.data(), text.size())};
  return {slices, 2};
}

grpc::ByteBuffer encode(const Header& header, std::span<const float> payload, std::shared_ptr<void> owner) {
  Header whole = header;
  whole.count = static_cast<std::uint32_t>(payload.size_bytes());
  const grpc::Slice slices[] = {grpc::Slice(&whole, sizeof whole),
                                grpc::Slice(const_cast<float*>(payload.data()), payload.size_bytes(), &let_go,
                                            new std::shared_ptr<void>(std::move(owner)))};
  return {slices, 2};
}

Header failure_header(const Error& error, std::string& text) {
  Header header = make_header(Kind::failure, 0, 0);
  header.category = static_cast<std::uint8_t>(error.category());
  text =
      std::string(error.what()).substr(0, max_text / 2) + '\n' + error.advice().substr(0, max_text / 2 - 1);
  return header;
}

Received::Received(const grpc::ByteBuffer& buffer) {
  if (!buffer.Dump(&slices_).ok()) return;
  const std::size_t size = buffer.Length();
  if (size < sizeof(Header) || size > max_message) return;
  Header header;
  copy_pieces(slices_, 0, sizeof header, &header);
  if (header.magic != magic || header.format != format || header.count != size - sizeof header) return;
  header_ = header;
}

void Received::copy_payload(void* to) const { copy_pieces(slices_, sizeof(Header), header_->count, to); }

std::string Received::text() const {
  std::string text(std::min<std::size_t>(header_->count, max_text), '\0');
  copy_pieces(slices_, sizeof(Header), text.size(), text.data());
  return text;
}

}  // namespace dtrain::parameter_server
