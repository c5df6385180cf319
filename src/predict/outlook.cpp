#include "predict/outlook.hpp"

namespace dtrain::predict {

namespace {

constexpr double tenth = 0.1;
constexpr double worth_telling = 1.01;

// The smallest N from 2 to `most` for which `holds`, which is expected to hold for all larger N then.
template <class Holds>
std::optional<int> first(int most, const Holds& holds) {
  int high = 2;
  while (high < most && !holds(high)) high = high > most / 2 ? most : 2 * high;
  if (high > most || !holds(high)) return std::nullopt;
  int low = std::max(2, high / 2);
  if (holds(low)) return low;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

std::vector<Exchange> other_buckets(const Setup& setup, const model::Model& model,
                                    std::vector<double>& sizes) {
  std::vector<Exchange> all;
  for (const double megabytes : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 25.0, 50.0, 100.0}) {
    Exchange exchange = setup.target_exchange;
    exchange.buckets = buckets_of(model, megabytes);
    const bool same = exchange.buckets.size() == setup.target_exchange.buckets.size();
    const bool again = !all.empty() && all.back().buckets.size() == exchange.buckets.size();
    if (same || again) continue;
    all.push_back(std::move(exchange));
    sizes.push_back(megabytes);
  }
  return all;
}

}  // namespace

int looked_up_to(const Setup& setup) {
  return setup.strong ? static_cast<int>(setup.global_images) : largest_replicas;
}

std::vector<Limit> find_limits(const Forecast& forecast) {
  struct Found {
    Limit limit;
    double seconds = 0.0;  // at the N from which it takes a tenth
  };
  const int most = looked_up_to(forecast.setup());
  std::vector<Found> all;
  const auto shares = forecast.shares(1);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!shares[i].lasting) continue;
    const auto seconds = [&](int n) { return forecast.shares(n)[i].seconds; };
    const auto step = [&](int n) { return forecast.parts(forecast.setup().target_exchange, n).step(); };
    Found found{.limit = {.part = shares[i].name, .tenth = {}, .overtakes = {}}};
    found.limit.tenth = first(most, [&](int n) { return seconds(n) >= tenth * step(n); });
    if (found.limit.tenth) {
      found.limit.overtakes = first(most, [&](int n) { return seconds(n) >= forecast.ideal(n); });
      found.seconds = seconds(*found.limit.tenth);
    }
    all.push_back(std::move(found));
  }
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    const int left = a.limit.tenth.value_or(largest_replicas + 1);
    const int right = b.limit.tenth.value_or(largest_replicas + 1);
    return left != right ? left < right : a.seconds > b.seconds;
  });
  std::vector<Limit> limits;
  for (auto& found : all) limits.push_back(std::move(found.limit));
  return limits;
}

std::vector<Gain> find_gains(const Forecast& forecast, const report::Result& result, int replicas) {
  const Setup& setup = forecast.setup();
  std::vector<Gain> gains;
  const auto add = [&](const std::string& change, const Exchange& exchange, const std::string& remark) {
    Gain gain{change, forecast.gain(exchange, replicas), remark};
    if (gain.factor.value >= worth_telling) gains.push_back(std::move(gain));
  };
  if (setup.exchange.overlap && setup.target_model) {
    std::vector<double> sizes;
    const auto exchanges = other_buckets(setup, *setup.target_model, sizes);
    const auto step = [&](const Exchange& exchange) { return forecast.parts(exchange, replicas).step(); };
    std::size_t best = 0;
    for (std::size_t i = 1; i < exchanges.size(); ++i) {
      if (step(exchanges[i]) < step(exchanges[best])) best = i;
    }
    if (!exchanges.empty()) add(fmt::format("--bucket-mb {:g}", sizes[best]), exchanges[best], "");
  }
  if (setup.can_overlap && !setup.exchange.overlap) {
    Exchange exchange = setup.target_exchange;
    exchange.overlap = true;
    add("without --no-overlap", exchange, "as if the exchange took no cores from the backward pass");
  }
  if (result.device != "cuda") {
    for (const int steps : {4, 16}) {
      if (steps <= setup.exchange.sync_every || setup.compresses) continue;
      Exchange exchange = setup.target_exchange;
      exchange.sync_every = steps;
      exchange.overlap = false;
      double bytes = 0.0;
      for (const auto& bucket : exchange.buckets) bytes += bucket.bytes;
      exchange.buckets = one_bucket(bytes);
      add(fmt::format("--sync-every {}", steps), exchange, "what it costs in convergence is not in this");
    }
  }
  if (setup.place_replicas(replicas).workers > 1 && !setup.compresses && setup.exchange.sync_every == 1) {
    Exchange exchange = setup.target_exchange;
    exchange.sent_share = 0.5;
    add("--compress bf16", exchange, "the time that compressing takes is not in this");
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Gain& a, const Gain& b) { return a.factor.value > b.factor.value; });
  return gains;
}

}  // namespace dtrain::predict
