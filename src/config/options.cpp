#include "config/options.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::config {

namespace {

template <class Enum, std::size_t Count>
using Names = std::array<std::pair<std::string_view, Enum>, Count>;

constexpr Names<Scaling, 2> scaling_names{{{"weak", Scaling::weak}, {"strong", Scaling::strong}}};
constexpr Names<LastBatch, 2> last_batch_names{{{"keep", LastBatch::keep}, {"drop", LastBatch::drop}}};
constexpr Names<Allocator, 2> allocator_names{
    {{"default", Allocator::standard}, {"async", Allocator::async}}};
constexpr Names<Updates, 2> updates_names{{{"sync", Updates::sync}, {"async", Updates::async}}};
constexpr Names<Phase, phase_count> phase_names{{{"input", Phase::input},
                                                 {"forward", Phase::forward},
                                                 {"backward", Phase::backward},
                                                 {"communication", Phase::communication},
                                                 {"update", Phase::update}}};
// The first four are ours, the others TensorFlow's policies.
constexpr Names<Precision, 7> precision_names{{{"fp32", Precision::fp32},
                                               {"tf32", Precision::tf32},
                                               {"bf16", Precision::bf16},
                                               {"fp16", Precision::fp16},
                                               {"float32", Precision::fp32},
                                               {"mixed_bfloat16", Precision::bf16},
                                               {"mixed_float16", Precision::fp16}}};

template <class Table, class Enum>
std::string name_in(const Table& table, Enum value) {
  for (const auto& [text, entry] : table) {
    if (entry == value) return std::string(text);
  }
  throw std::logic_error("an enumerator has no name");
}

template <class Table>
auto find_in(const Table& table, const std::string& flag, const std::string& text) {
  std::vector<std::string> known;
  for (const auto& [name, value] : table) {
    if (name == text) return value;
    known.emplace_back(name);
  }
  const auto close = nearest(text, known);
  throw usage_error(
      fmt::format("{}: unknown value '{}'", flag, text),
      (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", "));
}

}  // namespace

std::string name(Scaling scaling) { return name_in(scaling_names, scaling); }
std::string name(Precision precision) { return name_in(precision_names, precision); }
std::string name(LastBatch last_batch) { return name_in(last_batch_names, last_batch); }
std::string name(Updates updates) { return name_in(updates_names, updates); }
std::string name(Allocator allocator) { return name_in(allocator_names, allocator); }
std::string name(Phase phase) { return name_in(phase_names, phase); }

Precision parse_precision(const std::string& text) { return find_in(precision_names, "--precision", text); }
Scaling parse_scaling(const std::string& text) { return find_in(scaling_names, "--scaling", text); }
LastBatch parse_last_batch(const std::string& text) {
  return find_in(last_batch_names, "--last-batch", text);
}
Updates parse_updates(const std::string& text) { return find_in(updates_names, "--updates", text); }
Allocator parse_allocator(const std::string& text) { return find_in(allocator_names, "--allocator", text); }
Phase parse_phase(const std::string& text) { return find_in(phase_names, "--inject-delay phase", text); }

}  // namespace dtrain::config
