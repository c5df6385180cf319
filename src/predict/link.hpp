#pragma once

#include <string>

#include "base/registry.hpp"

namespace dtrain::predict {

// What a message of n bytes between two hosts takes: alpha + n x beta.
struct Link {
  std::string name;
  double alpha = 0.0;  // seconds a message
  double beta = 0.0;   // seconds a byte, one direction
  double doubt = 0.0;  // how far the figures may be off, as a share: 0.2 = a fifth either way
  std::string source;  // where they come from
};

// Presets. Bandwidths are what the line carries for data after its encoding and headers, latencies what a
// small message of a collective library takes one way. They describe the kind of link, not yours: measure it
// with `dtrain allreduce` where that is possible.
//
//   nvlink4   NVIDIA H100 data sheet: 900 GB/s both ways over 18 links, so 450 GB/s one way; NCCL reaches
//   about
//             80 % of it. Latency of a step of NCCL's ring within a node: a few microseconds.
//   ib-ndr    400 Gbit/s; ib-hdr: 200 Gbit/s; ib-edr: 100 Gbit/s (InfiniBand Trade Association, roadmap),
//   64b/66b
//             encoding and headers leave about 96 %. One-way latency of adapters is about 1 us; a step of a
//             collective that goes through the host takes some 4 us.
//   100gbe, 25gbe, 10gbe, 1gbe  Ethernet with TCP: 1448 of 1538 bytes on the wire are data at an MTU of 1500.
//   Latency
//             of a message through the kernel at both ends: 25 us at 25 Gbit/s and more, 50 us below.
const Registry<Link>& links();

// A preset's name, or "ALPHA,BANDWIDTH": "5us,12.5GB/s", "50us,10Gbit/s", "0.2ms,100Mbit/s". ALPHA is seconds
// without a unit, or with s, ms, us, ns; BANDWIDTH needs one of B/s, KB/s, MB/s, GB/s, Kbit/s, Mbit/s, Gbit/s
// (powers of 1000). Usage error naming `flag` for anything else.
Link parse_link(const std::string& text, const std::string& flag);

}  // namespace dtrain::predict
