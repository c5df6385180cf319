#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "predict/outlook.hpp"
#include "report/format.hpp"

namespace dtrain::predict {

namespace {

constexpr std::size_t points_needed = 3;
constexpr int curve_points = 24;
constexpr double sweeps_may_be_off = 3.0;  // times, either way

void require_complete(const report::Result& result, const std::string& file) {
  const std::string where = file.empty() ? "" : file + ": ";
  if (result.model.parameters == 0) {
    throw data_error(where + "model.parameters is 0, and without them nobody knows what is exchanged",
                     "give a result of a model that is trained");
  }
  if (result.samples.complete) return;
  throw data_error(
      where + "the measurement did not run to its end, so that a prediction would rest on part of it",
      "measure again, or wait until it has ended");
}

void require_request(const Request& request) {
  for (const int n : request.replicas) {
    if (n >= 1 && n <= largest_replicas) continue;
    throw usage_error(fmt::format("--replicas {}: a prediction is for 1 to {} replicas", n, largest_replicas),
                      "give such numbers, e.g. 8,64,512");
  }
  if (request.per_host && !request.link) {
    throw usage_error(
        fmt::format("--per-host {} needs --link: without it, replicas sit as they did when measured",
                    *request.per_host),
        "add --link, or leave --per-host out");
  }
}

std::string numbers(const Measured& measured) {
  std::vector<std::string> words;
  for (const auto& point : measured.points) words.push_back(std::to_string(point.placement.replicas));
  return words.empty() ? "none" : join(words, ", ");
}

std::string too_few(const Measured& measured, const std::string& strategy) {
  if (measured.points.size() >= points_needed) return {};
  return fmt::format(
      "N measured with {}: {}; three are needed to fit and to check a prediction: measure with "
      "--replicas 1,2,4 or more of them{}",
      strategy, numbers(measured),
      measured.left_out.empty() ? "" : "; not used: " + join(measured.left_out, "; "));
}

// Communication that was hidden as a whole says only that it is no more than that.
std::string cannot_tell(const Setup& setup, const Forecast& forecast) {
  if (setup.link || !setup.exchange.overlap || forecast.model().communication().determined()) return {};
  return "communication was hidden behind the backward pass in a measured run, so that the runs do not say "
         "what it "
         "takes: add --allreduce FILE (of dtrain allreduce --json, over the same ranks), or measure with "
         "--no-overlap";
}

Prediction::Source source_of(const report::Result& result, const Measured& measured, const Request& request) {
  Prediction::Source source{.file = request.file,
                            .created = result.created,
                            .model = request.model ? request.model->name : result.model.name,
                            .measured_model = result.model.name,
                            .strategy = result.options.strategy,
                            .device = result.device,
                            .scaling = config::name(result.scaling),
                            .images_of_replica = 0.0,
                            .rounds = measured.rounds};
  if (!measured.points.empty()) source.images_of_replica = measured.points.back().replica_images;
  return source;
}

std::vector<Check> checks_of(const Forecast& forecast, const Measured& measured) {
  std::vector<Check> checks;
  for (std::size_t i = 0; i < measured.points.size(); ++i) {
    const Point& point = measured.points[i];
    const double step = forecast.observations()[i].parts.step();
    const double predicted = forecast.choice().best.predicted[i];
    checks.push_back({.replicas = point.placement.replicas,
                      .run = point.run,
                      .simulated = point.simulated,
                      .images_per_second = point.images / step,
                      .step = step,
                      .predicted = predicted,
                      .error = predicted / step - 1.0});
  }
  return checks;
}

std::string times_text(double factor) {
  return factor >= 0.1 && factor < 100.0 ? fmt::format("{:.2f}", factor) : fmt::format("{:.2g}", factor);
}

std::string what_it_rests_on(const Setup& setup, const Communication& communication) {
  std::string from;
  if (!setup.sweeps.empty()) {
    from = fmt::format(
        "{} of all-reduces (off by {:.0f} % around the buckets' size); the runs themselves take {} times as "
        "long",
        report::count(std::ssize(setup.sweeps), "sweep"), 100.0 * communication.sweep_misfit(),
        times_text(communication.calibration().value_or(1.0)));
  } else {
    from = setup.exchange.overlap ? "the runs' exposed communication and what their buckets hide"
                                  : "the runs' own communication";
  }
  if (!setup.link) return from;
  return fmt::format("among hosts, {} ({}); else {}", setup.link->name, setup.link->source, from);
}

Prediction::Collective collective_of(const Forecast& forecast) {
  const Setup& setup = forecast.setup();
  Prediction::Collective collective;
  const auto& unknowns = forecast.model().communication().unknowns();
  collective.has_spanning = setup.has_spanning();
  collective.has_local = setup.has_local();
  collective.law = forecast.choice().best.law.name(collective.has_local, collective.has_spanning);
  collective.why = forecast.choice().why;
  for (const auto& other : forecast.choice().others) {
    collective.others.push_back(other.law.name(collective.has_local, collective.has_spanning));
  }
  collective.alpha = unknowns[0];
  collective.beta = unknowns[1];
  collective.local_alpha = unknowns[2];
  collective.local_beta = unknowns[3];
  collective.from = what_it_rests_on(setup, forecast.model().communication());
  return collective;
}

// Measured and asked N, and others between and around them.
std::vector<Estimate> curve_of(const Forecast& forecast, const Measured& measured, int last) {
  std::set<int> at{1, last};
  for (const auto& point : measured.points) at.insert(point.placement.replicas);
  const double step = std::pow(static_cast<double>(last), 1.0 / curve_points);
  for (double n = 1.0; n < last; n *= std::max(step, 1.01)) at.insert(static_cast<int>(std::lround(n)));
  std::vector<Estimate> curve;
  for (const int n : at) {
    if (!forecast.setup().strong || n <= forecast.setup().global_images)
      curve.push_back(forecast.estimate(n));
  }
  return curve;
}

std::string verdict_of(const Prediction& prediction, const Measured& measured) {
  const auto& limits = prediction.limits;
  if (limits.empty() || !limits.front().tenth) {
    return fmt::format("Nothing that the model sees takes a tenth of the step up to N = {}.",
                       report::count(prediction.limits_up_to));
  }
  const Limit& limit = limits.front();
  const int largest = measured.points.back().placement.replicas;
  std::string text = fmt::format("What limits first: {}. It takes a tenth of the step {} N = {}", limit.part,
                                 *limit.tenth <= largest ? "as of" : "from", report::count(*limit.tenth));
  if (limit.overtakes)
    text +=
        fmt::format(", and more than the useful computation from N = {}", report::count(*limit.overtakes));
  text += ".";
  const Estimate& farthest = prediction.estimates.back();
  if (!farthest.limit.empty() && farthest.limit != limit.part)
    text +=
        fmt::format(" At N = {} what takes most is {}.", report::count(farthest.replicas), farthest.limit);
  return text;
}

// What runs and sweeps say of the same all-reduce, if that is not alike.
std::string odd_sweeps(const Forecast& forecast) {
  const double factor = forecast.model().communication().calibration().value_or(1.0);
  if (factor <= sweeps_may_be_off && factor >= 1.0 / sweeps_may_be_off) return {};
  return fmt::format(
      "the runs' all-reduces take {} times as long as the sweeps say: either the sweeps are of another "
      "machine or link, or what the runs show is not all-reduces' time; take the prediction with care, and "
      "compare it with one without --allreduce",
      times_text(factor));
}

void note(Prediction& prediction, const Forecast& forecast, const Measured& measured) {
  const Setup& setup = forecast.setup();
  auto& notes = prediction.notes;
  notes = setup.notes;
  for (const auto& left_out : measured.left_out) notes.push_back("not used: " + left_out);
  if (const std::string odd = odd_sweeps(forecast); !odd.empty()) notes.push_back(odd);
  const int largest = prediction.estimates.back().replicas;
  const bool shares = std::any_of(prediction.estimates.begin(), prediction.estimates.end(),
                                  [](const Estimate& estimate) { return estimate.shares; });
  if (shares) {
    notes.push_back(fmt::format(
        "simulated: there replicas share {}s ({} on a host), as no scaling run would; give --link "
        "for replicas on hosts of their own",
        setup.place, setup.places));
  }
  if (!measured.unsteady.empty()) {
    notes.push_back(fmt::format(
        "unsteady when measured: {} (dtrain report says why); the prediction is no better than that",
        join(measured.unsteady, ", ")));
  }
  const bool shared = std::any_of(measured.points.begin(), measured.points.end(),
                                  [&](const Point& point) { return setup.load(point.placement) > 1.0; });
  if (setup.link && shared && setup.largest.workers > 1) {
    notes.emplace_back(
        "waiting was measured where workers shared a host's cores: on hosts of their own it is likely less");
  }
  if (!measured.arrivals_measured)
    notes.emplace_back("arrivals were not measured: stragglers are part of communication");
  if (measured.rounds < 2) {
    notes.emplace_back(
        "a run has one round only, so that the interval knows nothing of the spread between rounds");
  }
  const int known = forecast.maximum().known_up_to();
  if (known == 0) {
    notes.emplace_back(
        "too few step times of one replica: waiting for the slowest grows as with normal noise");
  } else if (known < largest) {
    notes.push_back(
        fmt::format("waiting for the slowest of more than {} replicas goes on as an exponential tail does: "
                    "that many steps of one replica were not measured",
                    report::count(known)));
  }
  if (setup.link && setup.link->doubt > 0.0) {
    notes.push_back(fmt::format("{} are figures of the kind of link, taken as right within {:.0f} %",
                                setup.link->name, 100.0 * setup.link->doubt));
  }
  if (setup.compresses) {
    notes.emplace_back("compressed: the share of bytes sent is taken as that of the largest measured N");
  }
}

}  // namespace

std::string words(Distance distance, int replicas, int largest) {
  switch (distance) {
    case Distance::measured:
      return "at a measured N";
    case Distance::between:
      return "between measured N";
    case Distance::otherwise:
      return "no larger N, but otherwise than measured";
    case Distance::extrapolated:
      return "extrapolated";
    case Distance::far:
      return fmt::format("far extrapolated: {:.0f} times the largest measured N",
                         static_cast<double>(replicas) / largest);
  }
  return {};
}

Prediction predict(const report::Result& result, const Request& request) {
  require_request(request);
  require_complete(result, request.file);
  require_all_reduce(result);
  const Measured measured = take_measured(result, request.file);
  Prediction prediction;
  prediction.source = source_of(result, measured, request);
  prediction.refusal = too_few(measured, result.options.strategy);
  if (!prediction.refusal.empty()) return prediction;
  const Setup setup = make_setup(result, measured, request);
  const Forecast forecast(setup, measured);
  prediction.refusal = cannot_tell(setup, forecast);
  if (!prediction.refusal.empty()) return prediction;

  std::set<int> asked(request.replicas.begin(), request.replicas.end());
  if (asked.empty()) asked = {2 * setup.largest.replicas};
  const int last = std::max(*asked.rbegin(), setup.largest.replicas);
  for (const int n : asked) prediction.estimates.push_back(forecast.estimate(n));
  prediction.checks = checks_of(forecast, measured);
  prediction.curve = curve_of(forecast, measured, last);
  prediction.collective = collective_of(forecast);
  prediction.limits = find_limits(forecast);
  prediction.limits_up_to = looked_up_to(setup);
  prediction.verdict = verdict_of(prediction, measured);
  prediction.gains = find_gains(forecast, result, *asked.rbegin());
  note(prediction, forecast, measured);
  return prediction;
}

}  // namespace dtrain::predict
