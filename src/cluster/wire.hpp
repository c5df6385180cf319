#pragma once

#include "cluster/control.pb.h"
#include "cluster/question.hpp"

namespace dtrain::cluster {

inline constexpr std::uint32_t protocol = 1;

// To and from the messages of control.proto. What comes from outside is not trusted: nothing where it is not
// a question.
wire::Peer to_wire(const Peer& peer);
wire::Loss to_wire(const Loss& loss);
wire::ToChief to_wire(std::uint64_t id, Question question);
wire::ToMember to_wire(std::uint64_t id, const Answer& answer);

Peer from_wire(const wire::Peer& peer);
Loss from_wire(const wire::Loss& loss);
std::optional<Question> from_wire(wire::Question& question);
Answer from_wire(wire::Answer& answer);

}  // namespace dtrain::cluster
