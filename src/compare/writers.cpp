#include "compare/writers.hpp"

#include "compare/formats.hpp"

namespace dtrain::compare {

namespace {

class FunctionWriter final : public Writer {
 public:
  using Render = std::string (*)(const Comparison&);
  FunctionWriter(std::string file_name, Render content)
      : file_name_(std::move(file_name)), render_(content) {}
  std::string file_name() const override { return file_name_; }
  std::string render(const Comparison& comparison) const override { return render_(comparison); }

 private:
  std::string file_name_;
  Render render_;
};

std::string to_plain_text(const Comparison& comparison) { return render_console(comparison, {}, false); }

}  // namespace

const Registry<std::shared_ptr<const Writer>>& writers() {
  static const auto table = [] {
    Registry<std::shared_ptr<const Writer>> formats("comparison format");
    const auto add = [&](const char* name, const char* summary, const char* file,
                         FunctionWriter::Render render) {
      formats.add(name, summary, std::make_shared<FunctionWriter>(file, render));
    };
    add("console", "tables on the screen", "", to_plain_text);
    add("markdown", "for a pull request: comparison.md", "comparison.md", to_markdown);
    add("json", "everything, for programs: comparison.json", "comparison.json", to_json);
    add("junit", "a test case an answer, for CI servers: comparison.xml", "comparison.xml", to_junit);
    add("github", "annotations for the log of a GitHub workflow", "", to_github);
    formats.alias("md", "markdown");
    return formats;
  }();
  return table;
}

}  // namespace dtrain::compare
