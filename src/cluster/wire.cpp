#include "cluster/wire.hpp"

#include "base/overloaded.hpp"

namespace dtrain::cluster {

namespace {

constexpr std::size_t longest_text = 2000;

// Text that another process wrote, for errors and logs: bounded, on one line.
std::string plain(const std::string& text) {
  std::string kept = text.substr(0, longest_text);
  for (char& c : kept) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return kept;
}

template <class Ranks>
std::vector<int> ranks_of(const Ranks& ranks) {
  return {ranks.begin(), ranks.end()};
}

}  // namespace

wire::Peer to_wire(const Peer& peer) {
  wire::Peer message;
  message.set_rank(peer.rank);
  message.set_role(peer.role);
  message.set_index(peer.index);
  message.set_address(peer.address);
  message.set_reached_at(peer.reached_at);
  message.set_host(peer.host);
  message.set_boot(peer.boot);
  message.set_process(peer.process);
  message.set_joined_seconds(peer.joined_seconds);
  return message;
}

Peer from_wire(const wire::Peer& peer) {
  return {peer.rank(),           plain(peer.role()),       peer.index(),
          plain(peer.address()), plain(peer.reached_at()), plain(peer.host()),
          plain(peer.boot()),    peer.process(),           peer.joined_seconds()};
}

wire::Loss to_wire(const Loss& loss) {
  wire::Loss message;
  message.set_rank(loss.rank);
  message.set_reason(loss.reason);
  return message;
}

Loss from_wire(const wire::Loss& loss) { return {loss.rank(), plain(loss.reason())}; }

wire::ToChief to_wire(std::uint64_t id, Question question) {
  wire::ToChief message;
  wire::Question& asked = *message.mutable_question();
  asked.set_id(id);
  std::visit(
      Overloaded{[&](Set& set) {
                   asked.mutable_set()->set_key(std::move(set.key));
                   asked.mutable_set()->set_value(std::move(set.value));
                 },
                 [&](Get& get) { asked.set_get(std::move(get.key)); },
                 [&](TryGet& get) { asked.set_try_get(std::move(get.key)); },
                 [&](Erase& erase) { asked.set_erase(std::move(erase.key)); },
                 [&](Gather& gather) {
                   asked.mutable_gather()->set_name(std::move(gather.name));
                   asked.mutable_gather()->set_value(std::move(gather.value));
                   asked.mutable_gather()->mutable_ranks()->Add(gather.ranks.begin(), gather.ranks.end());
                 },
                 [&](FirstBehind& behind) {
                   auto& ranks = *asked.mutable_first_behind()->mutable_ranks();
                   asked.mutable_first_behind()->set_progress(behind.progress);
                   ranks.Add(behind.ranks.begin(), behind.ranks.end());
                 },
                 [&](Fail& fail) {
                   *asked.mutable_fail() = to_wire(Loss{fail.rank, fail.reason});
                 },
                 [&](Leave&) { asked.mutable_leave(); }, [&](ReadClock&) { asked.mutable_read_clock(); }},
      question);
  return message;
}

std::optional<Question> from_wire(wire::Question& question) {
  switch (question.kind_case()) {
    case wire::Question::kSet:
      return Set{question.set().key(), std::move(*question.mutable_set()->mutable_value())};
    case wire::Question::kGet:
      return Get{question.get()};
    case wire::Question::kTryGet:
      return TryGet{question.try_get()};
    case wire::Question::kErase:
      return Erase{question.erase()};
    case wire::Question::kGather:
      return Gather{question.gather().name(), std::move(*question.mutable_gather()->mutable_value()),
                    ranks_of(question.gather().ranks())};
    case wire::Question::kFirstBehind:
      return FirstBehind{question.first_behind().progress(), ranks_of(question.first_behind().ranks())};
    case wire::Question::kFail:
      return Fail{question.fail().rank(), plain(question.fail().reason())};
    case wire::Question::kLeave:
      return Leave{};
    case wire::Question::kReadClock:
      return ReadClock{};
    case wire::Question::KIND_NOT_SET:
      break;
  }
  return std::nullopt;
}

wire::ToMember to_wire(std::uint64_t id, const Answer& answer) {
  wire::ToMember message;
  wire::Answer& told = *message.mutable_answer();
  told.set_id(id);
  for (const auto& value : answer.values) told.add_values(value);
  if (answer.rank) told.set_rank(*answer.rank);
  told.set_clock_ns(answer.clock_ns);
  told.set_error(answer.error);
  if (answer.loss) *told.mutable_loss() = to_wire(*answer.loss);
  return message;
}

Answer from_wire(wire::Answer& answer) {
  Answer told;
  for (auto& value : *answer.mutable_values()) told.values.push_back(std::move(value));
  if (answer.has_rank()) told.rank = answer.rank();
  told.clock_ns = answer.clock_ns();
  told.error = plain(answer.error());
  if (answer.has_loss()) told.loss = from_wire(answer.loss());
  return told;
}

}  // namespace dtrain::cluster
