#include "report/writers.hpp"

#include "report/console.hpp"
#include "report/writer.hpp"

namespace dtrain::report {

namespace {

class FunctionWriter final : public Writer {
 public:
  using Render = std::string (*)(const Result&);
  FunctionWriter(std::string file_name, Render content)
      : file_name_(std::move(file_name)), render_(content) {}
  std::string file_name() const override { return file_name_; }
  std::string render(const Result& result) const override { return render_(result); }

 private:
  std::string file_name_;
  Render render_;
};

}  // namespace

std::string to_plain_text(const Result& result) {
  const ConsoleStyle plain;
  return render_header(result, plain) + render_report(result, plain);
}

const Registry<std::shared_ptr<const Writer>>& writers() {
  static const auto table = [] {
    Registry<std::shared_ptr<const Writer>> formats("report format");
    const auto add = [&](const char* name, const char* summary, const char* file,
                         FunctionWriter::Render render) {
      formats.add(name, summary, std::make_shared<FunctionWriter>(file, render));
    };
    add("console", "tables and bars on the screen", "", to_plain_text);
    add("json", "everything, for programs: result.json", "result.json", to_json);
    add("csv", "a row a run and round: result.csv", "result.csv", to_csv);
    add("markdown", "tables for a pull request: result.md", "result.md", to_markdown);
    add("html", "charts in one offline file: report.html", "report.html", to_html);
    add("github-action-benchmark", "for the action of that name: github-action-benchmark.json",
        "github-action-benchmark.json", to_github_action_benchmark);
    add("bencher", "Bencher Metric Format: bencher.json", "bencher.json", to_bencher);
    formats.alias("md", "markdown");
    return formats;
  }();
  return table;
}

}  // namespace dtrain::report
