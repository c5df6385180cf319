#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.hpp"
#include "cli/config_file.hpp"

namespace dtrain::cli {

namespace {

constexpr std::size_t help_column = 34;
constexpr std::size_t help_width = 110;

// CLI11's layout, with descriptions wrapped and without its marks of negated flags.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(help_column); }

  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    static const std::string mark = "{false}";
    std::string name = CLI::Formatter::make_option_name(option, positional);
    if (const auto at = name.find(mark); at != std::string::npos) name.erase(at, mark.size());
    return name;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text;
    std::size_t column = 0;
    for (const auto& word : split(CLI::Formatter::make_option_desc(option), ' ')) {
      const bool fits = column + word.size() < help_width - help_column;
      if (!text.empty()) text += fits ? ' ' : '\n';
      column = fits ? column + word.size() + 1 : word.size();
      text += word;
    }
    return text;
  }
};

std::string without_double_blank_lines(std::string text) {
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// A command's flags in CLI11's hands. Lives while the command's members are bound.
struct Parser {
  explicit Parser(Command& command) : app(command.summary() + ".", "dtrain " + command.name()), flags(app) {
    app.set_help_flag("-h,--help", "Show this help");
    app.formatter(std::make_shared<HelpFormatter>());
    app.allow_extras();
    app.footer(command.footer());
    command.declare(flags);
  }

  CLI::App app;
  Flags flags;
};

std::vector<std::string> known_names(const Flags& flags) {
  std::vector<std::string> names{"--help"};
  for (const auto& flag : flags.entries()) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

void refuse_extras(const Parser& parser, const Command& command) {
  const auto extras = parser.app.remaining();
  if (extras.empty()) return;
  const auto dashed = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  const auto flag = std::find_if(extras.begin(), extras.end(), dashed);
  const std::string help = fmt::format("`dtrain {} --help` lists the flags", command.name());
  if (flag == extras.end()) {
    throw usage_error(fmt::format("unexpected argument '{}'", extras.front()), help);
  }
  const std::string name = flag->substr(0, flag->find('='));
  const auto close = nearest(name, known_names(parser.flags));
  throw usage_error(fmt::format("unknown flag '{}' of `dtrain {}`", name, command.name()),
                    close ? fmt::format("did you mean '{}'? {}", *close, help) : help);
}

// The last --config, which is looked for before parsing because its values come first.
std::optional<std::string> config_path(const std::vector<std::string>& arguments) {
  static const std::string flag = "--config";
  std::optional<std::string> path;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") break;
    if (arguments[i] == flag && i + 1 < arguments.size()) path = arguments[i + 1];
    if (arguments[i].starts_with(flag + "=")) path = arguments[i].substr(flag.size() + 1);
  }
  return path;
}

}  // namespace

Parsed parse_arguments(Command& command, const std::vector<std::string>& arguments, std::string& help) {
  Parser parser(command);
  std::vector<std::string> all;
  const bool wants_help = std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
    return word == "--help" || word == "-h";
  });
  if (const auto path = config_path(arguments); path && !wants_help) {
    all = read_config_file(*path, command.name(), parser.flags.entries(), arguments);
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::reverse(all.begin(), all.end());  // as CLI11 takes them
  try {
    parser.app.parse(std::move(all));
  } catch (const CLI::CallForHelp&) {
    help = without_double_blank_lines(parser.app.help());
    return Parsed::help;
  } catch (const CLI::ParseError& error) {
    refuse_extras(parser, command);
    throw usage_error(error.what(), fmt::format("`dtrain {} --help` explains the flags", command.name()));
  }
  refuse_extras(parser, command);
  command.take_given(parser.flags.given());
  return Parsed::run;
}

std::string help_text(Command& command) { return without_double_blank_lines(Parser(command).app.help()); }

std::vector<FlagEntry> flags_of(Command& command) { return Parser(command).flags.entries(); }

std::string quote_for_shell(const std::vector<std::string>& words) {
  static const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%";
  std::string line;
  for (const auto& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace dtrain::cli
