#pragma once

#include <string>
#include <vector>

#include "model/model.hpp"

namespace dtrain::predict {

// One bucket of gradients.
struct Bucket {
  double bytes = 0.0;
  double ready = 1.0;  // share of the backward pass after which its gradients are final
};

// Buckets of a model in the order in which they are sent. Layers are expected to take backward time in
// proportion to their operations.
std::vector<Bucket> buckets_of(const model::Model& model, double bucket_mb);

// Without a model: one bucket, ready at the end.
std::vector<Bucket> one_bucket(double bytes);

// What is left after the backward pass of collectives that take `seconds` each, one after the other, each
// from when its bucket is ready. `backward`: seconds of the pass in which buckets become ready.
double exposed(const std::vector<Bucket>& buckets, const std::vector<double>& seconds, double backward);

// The bucket from which on one collective follows the other without a pause, to the last. Then
//   exposed = sum of seconds from that one on - what was left of backward when it was ready.
std::size_t first_of_queue(const std::vector<Bucket>& buckets, const std::vector<double>& seconds,
                           double backward);

}  // namespace dtrain::predict
