#include "cli/completion.hpp"

#include "base/text.hpp"
#include "cli/arguments.hpp"

namespace dtrain::cli {

namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

std::string flag_names(const std::vector<FlagEntry>& flags) {
  std::vector<std::string> names{"--help"};
  for (const auto& flag : flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return join(names, " ");
}

// Words that may stand first, and those that may follow the first word of a two-word command.
std::string first_words(const Commands& commands) {
  std::vector<std::string> words;
  for (const auto& command : commands) {
    const std::string first = split(command->name(), ' ').front();
    if (words.empty() || words.back() != first) words.push_back(first);
  }
  return join(words, " ");
}

std::string second_words(const Commands& commands, const std::string& first) {
  std::vector<std::string> words;
  for (const auto& command : commands) {
    if (command->name().starts_with(first + " ")) words.push_back(command->name().substr(first.size() + 1));
  }
  return join(words, " ");
}

std::string bash_values(const FlagEntry& flag) {
  const std::string files = flag.is_path ? "compgen -f -- \"$word\"" : "";
  if (flag.choices.empty()) return files;
  const std::string words = fmt::format("compgen -W '{}' -- \"$word\"", join(flag.choices, " "));
  return files.empty() ? words : words + "; " + files;
}

std::string bash_command(Command& command) {
  const auto flags = flags_of(command);
  std::string text = fmt::format("    '{}')\n      case \"$previous\" in\n", command.name());
  for (const auto& flag : flags) {
    const std::string values = bash_values(flag);
    if (!flag.takes_value || flag.names.empty()) continue;
    text += fmt::format("        {}) COMPREPLY=({}); return ;;\n", join(flag.names, "|"),
                        values.empty() ? "" : "$(" + values + ")");
  }
  return text +
         fmt::format(
             "      esac\n      COMPREPLY=($(compgen -W '{}' -- \"$word\") $(compgen -f -- \"$word\")) ;;\n",
             flag_names(flags));
}

std::string bash_script(const Commands& commands) {
  std::string text =
      "_dtrain() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
      "command=\"${COMP_WORDS[1]}\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{} help --help --version' -- \"$word\")); return\n  fi\n",
                      first_words(commands));
  for (const auto& first : split(first_words(commands), ' ')) {
    const std::string seconds = second_words(commands, first);
    if (seconds.empty()) continue;
    text += fmt::format(
        "  if [ \"$command\" = {} ]; then\n    if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
        "      COMPREPLY=($(compgen -W '{}' -- \"$word\")); return\n    fi\n"
        "    command=\"{} ${{COMP_WORDS[2]}}\"\n  fi\n",
        first, seconds, first);
  }
  text += "  case \"$command\" in\n";
  for (const auto& command : commands) text += bash_command(*command);
  return text + "  esac\n}\ncomplete -o filenames -F _dtrain dtrain ./dtrain\n";
}

std::string fish_quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return "'" + text + "'";
}

std::string fish_flag(const std::string& condition, const FlagEntry& flag) {
  std::string text = fmt::format("complete -c dtrain -n '{}'", condition);
  for (const auto& name : flag.names) text += " -l " + name.substr(2);
  text += " -d " + fish_quoted(flag.summary);
  if (!flag.choices.empty()) {
    text += (flag.is_path ? " -rFa " : " -xa ") + fish_quoted(join(flag.choices, " "));
  }
  if (flag.choices.empty() && flag.takes_value) text += flag.is_path ? " -rF" : " -x";
  return text + "\n";
}

std::string fish_script(const Commands& commands) {
  std::string text = "complete -c dtrain -f\n";
  for (const auto& command : commands) {
    const auto words = split(command->name(), ' ');
    std::string condition = "__fish_use_subcommand";
    if (words.size() == 2) {
      text += fmt::format("complete -c dtrain -n '__fish_use_subcommand' -a {}\n", words[0]);
      condition = fmt::format("__fish_seen_subcommand_from {}; and not __fish_seen_subcommand_from {}",
                              words[0], second_words(commands, words[0]));
    }
    text += fmt::format("complete -c dtrain -n '{}' -a {} -d {}\n", condition, words.back(),
                        fish_quoted(command->summary()));
    for (const auto& flag : flags_of(*command)) {
      if (!flag.names.empty()) text += fish_flag("__fish_seen_subcommand_from " + words.back(), flag);
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell, const Commands& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + bash_script(commands);
  if (shell == "fish") return fish_script(commands);
  const std::vector<std::string> known{"bash", "zsh", "fish"};
  const auto close = nearest(shell, known);
  throw usage_error(
      fmt::format("unknown shell '{}'", shell),
      (close ? fmt::format("did you mean '{}'? ", *close) : std::string()) + "known: " + join(known, ", "));
}

}  // namespace dtrain::cli
