#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "config/options.hpp"
#include "datasets/generate.hpp"
#include "datasets/inspect.hpp"

namespace dtrain::cli {

namespace {

class GenerateCommand final : public Command {
 public:
  std::string name() const override { return "data generate"; }
  std::string summary() const override {
    return "Makes a learnable synthetic data set in CIFAR-10's binary format";
  }
  std::string footer() const override { return "Example:\n  dtrain data generate synthetic --records 1000"; }

  void declare(Flags& flags) override {
    flags.files("DIR", "Folder for the files", paths_, false);
    flags.path("--out", "DIR", "The same", out_);
    flags.value("--records", "N",
                fmt::format("Images in each of the five training files [{}]", config_.images_per_file),
                [this](const std::string& text) {
                  config_.images_per_file = config::parse_integer(text, "--records", 1, 10'000'000);
                });
    flags.value("--test-records", "N", fmt::format("Images in the test file [{}]", config_.test_images),
                [this](const std::string& text) {
                  config_.test_images = config::parse_integer(text, "--test-records", 1, 10'000'000);
                });
    flags.value("--seed", "S", fmt::format("Of the images [{}]", config_.seed),
                [this](const std::string& text) { config_.seed = config::parse_seed(text, "--seed"); });
    flags.toggle("--quiet", "No progress", quiet_);
  }

  ExitCode run(const std::string&) override {
    set_up_log(quiet_);
    config_.directory = only_path(paths_, out_, "--out DIR");
    if (config_.directory.empty())
      throw usage_error("`dtrain data generate` needs a folder", "dtrain data generate DIR");
    const InterruptGuard interrupt;
    ProgressLine progress(quiet_);
    const auto files = datasets::generate(config_, [&](std::size_t done, std::size_t total) {
      if (interrupt.stopped()) throw Interrupted();
      progress.show("generating", done, total, "images");
    });
    progress.clear();
    for (const auto& file : files) print_out(file.string() + "\n");
    return ExitCode::fine;
  }

 private:
  datasets::GenerateConfig config_;
  std::vector<std::string> paths_;
  std::string out_;
  bool quiet_ = false;
};

std::string render(const datasets::Inspection& found) {
  std::string text = fmt::format("data      {}{}\n", found.name, found.synthetic ? " (synthetic)" : "");
  if (!found.note.empty()) text += "note      " + found.note + "\n";
  for (const auto& file : found.files) {
    text += fmt::format("file      {}  {} records, {}\n", file.path.string(), file.records,
                        file.test ? "test" : "training");
  }
  const auto split_lines = [&](const std::string& label, const datasets::SplitSummary& part) {
    text += fmt::format("{:<10}{} records, checksum {}\n", label, part.records, part.checksum);
  };
  split_lines("training", found.train);
  if (found.test) split_lines("test", *found.test);
  text += fmt::format("checksum  {}\n\n{:<7}{:<14}{:>10}{:>10}\n", found.checksum, "label", "class",
                      "training", found.test ? "test" : "");
  for (std::size_t label = 0; label < found.train.labels.size(); ++label) {
    const std::string name = label < found.class_names.size() ? found.class_names[label] : "";
    text += fmt::format("{:<7}{:<14}{:>10}{:>10}\n", label, name, found.train.labels[label],
                        found.test ? std::to_string(found.test->labels[label]) : "");
  }
  return text;
}

nlohmann::ordered_json to_json(const datasets::SplitSummary& part) {
  return {{"records", part.records}, {"labels", part.labels}, {"checksum", part.checksum}};
}

std::string render_json(const datasets::Inspection& found) {
  nlohmann::ordered_json json{{"name", found.name},
                              {"synthetic", found.synthetic},
                              {"note", found.note},
                              {"classes", found.class_names}};
  json["files"] = nlohmann::ordered_json::array();
  for (const auto& file : found.files) {
    json["files"].push_back({{"path", file.path.string()}, {"records", file.records}, {"test", file.test}});
  }
  json["train"] = to_json(found.train);
  json["test"] = found.test ? to_json(*found.test) : nlohmann::ordered_json();
  json["checksum"] = found.checksum;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

class InspectCommand final : public Command {
 public:
  std::string name() const override { return "data inspect"; }
  std::string summary() const override {
    return "Shows files, records, labels and checksum; writes a record as a picture";
  }
  std::string footer() const override {
    return "Examples:\n  dtrain data inspect cifar-10-batches-bin\n  dtrain data inspect --dump 0 --out "
           "first.ppm";
  }

  void declare(Flags& flags) override {
    flags.files("PATH", "Folder, file or glob [what `dtrain data fetch` left, else synthetic]", paths_,
                false);
    flags.path("--data", "PATH", "The same", data_);
    flags.value("--dump", "K",
                "Write record K, counted from 0 over training and test files, as a PPM picture",
                [this](const std::string& text) {
                  dump_ = config::parse_integer(text, "--dump", 0, std::numeric_limits<int>::max());
                });
    flags.path("--out", "FILE", "Name of the picture [record-K.ppm]", out_);
    flags.value("--seed", "S", "Of synthetic images [0]",
                [this](const std::string& text) { seed_ = config::parse_seed(text, "--seed"); });
    flags.toggle("--json", "As JSON", json_);
  }

  ExitCode run(const std::string&) override {
    const auto data = datasets::open_cifar10(only_path(paths_, data_, "--data PATH"), false, seed_);
    if (dump_) {
      write_picture(data);
      return ExitCode::fine;
    }
    const auto found = datasets::inspect(data);
    print_out(json_ ? render_json(found) : render(found));
    return ExitCode::fine;
  }

 private:
  void write_picture(const datasets::Cifar10& data) const {
    const auto picture = datasets::picture(data, static_cast<std::size_t>(*dump_));
    const std::string path = out_.empty() ? fmt::format("record-{}.ppm", *dump_) : out_;
    write_atomically(path, picture.ppm);
    const auto label = static_cast<std::size_t>(picture.label);
    print_out(fmt::format("{}  label {}{}\n", path, label,
                          label < data.class_names.size() ? " (" + data.class_names[label] + ")" : ""));
  }

  std::vector<std::string> paths_;
  std::string data_;
  std::string out_;
  std::optional<int> dump_;
  std::uint64_t seed_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_generate_command() { return std::make_unique<GenerateCommand>(); }
std::unique_ptr<Command> make_data_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace dtrain::cli
