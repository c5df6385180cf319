#include "report/console_text.hpp"

#include <numeric>

#include "base/text.hpp"
#include "report/format.hpp"

namespace dtrain::report {

namespace {

constexpr std::string_view reset = "\x1b[0m";
constexpr std::size_t gap = 2;

std::string_view escape(Ink ink) {
  switch (ink) {
    case Ink::bold:
      return "\x1b[1m";
    case Ink::dim:
      return "\x1b[2m";
    case Ink::warning:
      return "\x1b[33m";
    case Ink::good:
      return "\x1b[32m";
    case Ink::plain:
      break;
  }
  return "";
}

// Parts in the order of the loss budget: useful, then what was lost.
constexpr std::string_view part_letters = "#icsmu?";
constexpr std::string_view part_blocks[] = {"█", "▓", "▒", "░", "▚", "▞", "▫"};
constexpr int part_colors[] = {32, 36, 33, 31, 35, 34, 90};

std::string cells(std::size_t part, std::size_t count, const ConsoleStyle& style) {
  const std::size_t look = part % std::size(part_blocks);
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    if (!style.unicode) {
      out += part_letters[look];
    } else {
      out += part_blocks[style.color ? 0 : look];
    }
  }
  return style.color && count > 0 ? fmt::format("\x1b[{}m{}{}", part_colors[look], out, reset) : out;
}

std::string pad(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, columns_of(text)), ' ');
  return right ? space + text : text + space;
}

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t width = columns_of(printable(table.columns[c].head));
    for (const auto& row : table.rows) width = std::max(width, columns_of(printable(row[c])));
    widths.push_back(width);
  }
  return widths;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

struct Layout {
  const Table& table;
  std::vector<std::size_t> widths;
  std::size_t keys;
  const ConsoleStyle& style;
  const std::vector<std::string>& marks;
};

// The columns [first, last) beside the key columns.
std::string lay_out_part(const Layout& layout, std::size_t first, std::size_t last) {
  const auto& table = layout.table;
  const auto line = [&](auto cell) {
    std::string out;
    for (std::size_t c = 0; c < last; ++c) {
      if (c >= layout.keys && c < first) continue;
      if (c > 0) out.append(gap, ' ');
      out += pad(cell(c), layout.widths[c], table.columns[c].number);
    }
    return trimmed(out);
  };
  std::string out = "  " + paint(line([&](std::size_t c) { return printable(table.columns[c].head); }),
                                 Ink::bold, layout.style);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    out += row < layout.marks.size() ? fmt::format("\n{} ", layout.marks[row]) : "\n  ";
    out += line([&](std::size_t c) { return printable(table.rows[row][c]); });
  }
  return out + "\n";
}

}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    out += byte < 0x20 || byte == 0x7F || c1 ? '?' : text[i];
  }
  return out;
}

std::string paint(const std::string& text, Ink ink, const ConsoleStyle& style) {
  if (!style.color || ink == Ink::plain || text.empty()) return text;
  return fmt::format("{}{}{}", escape(ink), text, reset);
}

std::string wrap(const std::string& text, std::size_t indent, const ConsoleStyle& style) {
  const std::size_t width =
      std::max<std::size_t>(static_cast<std::size_t>(std::max(style.width, 0)), indent + 20);
  std::string out;
  std::size_t column = indent;
  for (const auto& word : split(printable(text), ' ')) {
    if (column > indent && column + 1 + columns_of(word) > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns_of(word);
  }
  return out;
}

std::string lay_out(const Table& table, std::size_t keys, const ConsoleStyle& style,
                    const std::vector<std::string>& marks) {
  const Layout layout{table, widths_of(table), keys, style, marks};
  const auto& widths = layout.widths;
  const auto room = static_cast<std::size_t>(std::max(style.width, 20));
  const auto cost = [&](std::size_t c) { return widths[c] + gap; };
  std::size_t key_width = 0;
  for (std::size_t c = 0; c < keys; ++c) key_width += cost(c);
  std::string out;
  for (std::size_t first = keys; first < widths.size();) {
    std::size_t last = first;
    for (std::size_t used = key_width; last < widths.size(); ++last) {
      used += cost(last);
      if (used > room && last > first) break;
    }
    if (!out.empty()) out += '\n';
    out += lay_out_part(layout, first, last);
    first = last;
  }
  return out;
}

std::string stacked_bar(const std::vector<double>& shares, std::size_t columns, const ConsoleStyle& style) {
  const auto positive = [](double share) { return std::isfinite(share) ? std::max(share, 0.0) : 0.0; };
  double total = 0.0;
  for (const double share : shares) total += positive(share);
  std::string out;
  if (total <= 0.0) return out;
  double sum = 0.0;
  std::size_t drawn = 0;
  for (std::size_t part = 0; part < shares.size(); ++part) {
    sum += positive(shares[part]);
    const auto end = static_cast<std::size_t>(std::llround(sum / total * static_cast<double>(columns)));
    out += cells(part, end - drawn, style);
    drawn = end;
  }
  return out;
}

std::string bar_swatch(std::size_t part, const ConsoleStyle& style) { return cells(part, 1, style); }

}  // namespace dtrain::report
