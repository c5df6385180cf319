#include "launch/ending.hpp"

#include <cstring>

namespace dtrain::launch {

namespace {

constexpr int run_failed = static_cast<int>(ExitCode::run);

std::string meaning(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::usage:
      return " (usage)";
    case ExitCode::environment:
      return " (environment)";
    case ExitCode::data:
      return " (data or result file)";
    case ExitCode::run:
      return " (the run failed)";
    case ExitCode::interrupted:
      return " (interrupted)";
    default:
      return "";
  }
}

bool is_verdict(int code) {
  return code == static_cast<int>(ExitCode::regression) || code == static_cast<int>(ExitCode::no_verdict);
}

// A process that could not begin or died of something else than another's loss.
bool has_its_own_reason(const Ending& ending) {
  return ending.signal != 0 || ending.code == static_cast<int>(ExitCode::usage) ||
         ending.code == static_cast<int>(ExitCode::environment) ||
         ending.code == static_cast<int>(ExitCode::data);
}

template <class Condition>
std::optional<std::size_t> first_in_time(const std::vector<Ending>& endings, const Condition& condition) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    if (condition(endings[i]) && (!first || endings[i].seconds < endings[*first].seconds)) first = i;
  }
  return first;
}

}  // namespace

bool Ending::failed() const { return signal != 0 || (code != 0 && !is_verdict(code)); }

std::string Ending::describe() const {
  if (signal == 0) return fmt::format("ended with exit code {}{}", code, meaning(code));
  const char* name = ::sigdescr_np(signal);
  return fmt::format("was ended by signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

std::optional<std::size_t> cause_of(const std::vector<Ending>& endings) {
  const auto first =
      first_in_time(endings, [](const Ending& ending) { return ending.failed() && !ending.brought_about; });
  const bool may_be_an_echo = first && endings[*first].signal == 0 && endings[*first].code == run_failed;
  if (!may_be_an_echo) return first;
  const auto reason = first_in_time(
      endings, [](const Ending& ending) { return !ending.brought_about && has_its_own_reason(ending); });
  return reason ? reason : first;
}

ExitCode exit_code_of(const std::vector<Ending>& endings) {
  if (const auto cause = cause_of(endings)) {
    const Ending& ending = endings[*cause];
    return ending.signal == 0 ? static_cast<ExitCode>(ending.code) : ExitCode::run;
  }
  const auto verdict = first_in_time(endings, [](const Ending& ending) { return ending.code != 0; });
  return verdict ? static_cast<ExitCode>(endings[*verdict].code) : ExitCode::fine;
}

}  // namespace dtrain::launch
