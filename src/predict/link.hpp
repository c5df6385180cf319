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
//   nvlink4: 18 links carry 900 GB/s both ways (NVIDIA's data sheet of the H100), so 450 GB/s one way, of
//   which collectives reach about 80 %; a step of a ring within a node takes a few microseconds.
//
//   ib-ndr, ib-hdr, ib-edr: 400, 200 and 100 Gbit/s (roadmap of the InfiniBand Trade Association); encoding
//   and headers leave about 96 %. Adapters take about 1 us one way, a step of a collective that goes through
//   the host some 4 us.
//
//   100gbe to 1gbe: Ethernet with TCP; at an MTU of 1500, 1448 of 1538 bytes on the wire are data. A message
//   through both kernels takes 25 us at 25 Gbit/s and more, 50 us below.
const Registry<Link>& links();

// A preset's name, or "ALPHA,BANDWIDTH": "5us,12.5GB/s", "50us,10Gbit/s", "0.2ms,100Mbit/s". ALPHA is seconds
// without a unit, or with s, ms, us, ns; BANDWIDTH needs one of B/s, KB/s, MB/s, GB/s, Kbit/s, Mbit/s, Gbit/s
// (powers of 1000). Usage error naming `flag` for anything else.
Link parse_link(const std::string& text, const std::string& flag);

}  // namespace dtrain::predict
