#include "train/checkpoint.hpp"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "base/mapped_file.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "model/find_model.hpp"

namespace dtrain::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointIdentity, model, parameters, optimizer, precision, seed,
                                   global_batch, shuffle, augment, last_batch, data_checksum)

namespace {

static_assert(std::endian::native == std::endian::little, "the file is written as it lies in memory");

using nlohmann::json;

constexpr std::uint32_t version = 2;

struct Prefix {
  char magic[8] = {'d', 't', 'r', 'a', 'i', 'n', 'C', 'P'};
  std::uint32_t version = train::version;
  std::uint32_t header_bytes = 0;
  std::uint64_t file_bytes = 0;
};
static_assert(sizeof(Prefix) == 24);

json header_of(const Checkpoint& checkpoint) {
  const TrainingState& state = checkpoint.state;
  json evaluations = json::array();
  for (const auto& sample : checkpoint.evaluations) {
    evaluations.push_back({{"epoch", sample.epoch},
                           {"seconds", sample.seconds},
                           {"loss", sample.loss},
                           {"accuracy", sample.accuracy}});
  }
  json sizes = json::array();
  for (const auto& values : state.optimizer) sizes.push_back(values.size());
  return {{"identity", checkpoint.identity},
          {"step", state.step},
          {"updates", state.updates},
          {"loss_scale", state.loss_scale},
          {"good_steps", state.good_steps},
          {"weights", state.weights.size()},
          {"optimizer", sizes},
          {"statistics", state.statistics.size()},
          {"losses", checkpoint.losses.size()},
          {"evaluations", std::move(evaluations)}};
}

template <class T>
void append(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

template <class T>
T read_as(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// The prefix of a file that is whole and unchanged.
Prefix check_frame(const std::string& name, std::span<const std::byte> bytes) {
  const Prefix expected;
  const std::string advice = "give a file that --checkpoint wrote";
  if (bytes.size() < sizeof(Prefix) ||
      std::memcmp(bytes.data(), expected.magic, sizeof(expected.magic)) != 0) {
    throw data_error(fmt::format("{}: not a checkpoint of this program", name), advice);
  }
  const auto prefix = read_as<Prefix>(bytes);
  if (prefix.version != version) {
    throw data_error(fmt::format("{}: checkpoint of version {}, this program reads version {}", name,
                                 prefix.version, version),
                     "go on with the program that wrote it, or train anew");
  }
  if (bytes.size() != prefix.file_bytes ||
      prefix.file_bytes < sizeof(Prefix) + prefix.header_bytes + sizeof(std::uint64_t)) {
    throw data_error(
        fmt::format("{}: {} bytes, but it was written with {}", name, bytes.size(), prefix.file_bytes),
        "it was cut short or added to: use another checkpoint, or train anew");
  }
  const auto body = bytes.first(bytes.size() - sizeof(std::uint64_t));
  if (hash_of(body) != read_as<std::uint64_t>(bytes.subspan(body.size()))) {
    throw data_error(fmt::format("{}: its content does not match its checksum", name),
                     "the file was changed or damaged: use another checkpoint, or train anew");
  }
  return prefix;
}

// Takes arrays off the front of the file's values.
class Values {
 public:
  explicit Values(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T = float>
  std::vector<T> take(std::size_t count) {
    if (count > bytes_.size() / sizeof(T)) throw std::out_of_range("more values than the file holds");
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
    return values;
  }

 private:
  std::span<const std::byte> bytes_;
};

Checkpoint parse(const json& header, std::span<const std::byte> bytes) {
  Checkpoint checkpoint;
  header.at("identity").get_to(checkpoint.identity);
  TrainingState& state = checkpoint.state;
  header.at("step").get_to(state.step);
  header.at("updates").get_to(state.updates);
  header.at("loss_scale").get_to(state.loss_scale);
  header.at("good_steps").get_to(state.good_steps);
  for (const json& sample : header.at("evaluations")) {
    checkpoint.evaluations.push_back(
        {sample.at("epoch"), sample.at("seconds"), sample.at("loss"), sample.at("accuracy")});
  }
  Values values(bytes);
  state.weights = values.take(header.at("weights"));
  for (const json& size : header.at("optimizer")) state.optimizer.push_back(values.take(size));
  state.statistics = values.take(header.at("statistics"));
  checkpoint.losses = values.take<double>(header.at("losses"));
  return checkpoint;
}

// A name of the zoo means the same everywhere; a file of that name may hold anything.
std::string identified(const model::Model& model, const std::string& asked) {
  if (!model::is_model_file(asked)) return model.name;
  return fmt::format("{} of layers {}", model.name, model::fingerprint(model));
}

}  // namespace

CheckpointIdentity identity_of(const config::Options& options, const config::RunPlan& plan,
                               const model::Model& model, const datasets::Dataset& data) {
  return {.model = identified(model, options.model),
          .parameters = model.parameter_count,
          .optimizer = options.optimizer,
          .precision = config::name(options.precision),
          .seed = options.seed,
          .global_batch = plan.global_batch,
          .shuffle = options.shuffle,
          .augment = options.augment,
          .last_batch = config::name(options.last_batch),
          .data_checksum = data.checksum()};
}

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const TrainingState& state = checkpoint.state;
  const std::string header = header_of(checkpoint).dump();
  std::string values;
  append(values, state.weights);
  for (const auto& buffer : state.optimizer) append(values, buffer);
  append(values, state.statistics);
  append(values, checkpoint.losses);

  Prefix prefix;
  prefix.header_bytes = static_cast<std::uint32_t>(header.size());
  prefix.file_bytes = sizeof(Prefix) + header.size() + values.size() + sizeof(std::uint64_t);
  std::string bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  bytes += header;
  bytes += values;
  const std::uint64_t hash = hash_of(std::as_bytes(std::span(bytes)));
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  write_atomically(path, bytes);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = std::as_bytes(file.bytes());
  const Prefix prefix = check_frame(path.string(), bytes);
  const auto header = bytes.subspan(sizeof(Prefix), prefix.header_bytes);
  const auto values = bytes.subspan(sizeof(Prefix) + prefix.header_bytes);
  try {
    const auto* text = reinterpret_cast<const char*>(header.data());
    return parse(json::parse(text, text + header.size()),
                 values.first(values.size() - sizeof(std::uint64_t)));
  } catch (const std::exception& error) {
    throw data_error(fmt::format("{}: checkpoint header cannot be read: {}", path.string(), error.what()),
                     "use another checkpoint, or train anew");
  }
}

void require_same_run(const std::filesystem::path& path, const CheckpointIdentity& found,
                      const CheckpointIdentity& wanted) {
  const json one = found;
  const json other = wanted;
  std::vector<std::string> differences;
  for (const auto& [key, value] : one.items()) {
    if (value != other.at(key)) {
      differences.push_back(
          fmt::format("{} {} here, {} in the file", key, other.at(key).dump(), value.dump()));
    }
  }
  if (differences.empty()) return;
  throw data_error(fmt::format("{}: checkpoint of another run: {}", path.string(), join(differences, "; ")),
                   "give the options it was made with, or train anew without --resume");
}

}  // namespace dtrain::train
