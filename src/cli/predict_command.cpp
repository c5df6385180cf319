#include <unistd.h>

#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/training_flags.hpp"
#include "model/find_model.hpp"
#include "predict/counts.hpp"
#include "predict/writers.hpp"

namespace dtrain::cli {

namespace {

class PredictCommand final : public Command {
 public:
  std::string name() const override { return "predict"; }
  std::string summary() const override {
    return "Predicts more replicas, another link or model from a saved result";
  }
  std::string footer() const override {
    return "RESULT is a result.json of `dtrain bench`, or a folder that holds one, with three N or more. "
           "Links: " +
           join(predict::links().names(), ", ") +
           ".\nWhere too little was measured there is no prediction, and exit 6.\n\nExamples:\n"
           "  dtrain predict results --replicas 8,64,512\n"
           "  dtrain predict results --replicas 64,512 --link ib-hdr --per-host 8\n"
           "  dtrain predict results --replicas 16 --allreduce sweep-2.json --allreduce sweep-4.json\n"
           "  dtrain predict results --replicas 64 --link 5us,12.5GB/s --format html,json --out prediction";
  }

  void declare(Flags& flags) override {
    flags.files("RESULT", "A result file or folder", paths_, true);
    flags.group("Prediction");
    flags.value(
        "--replicas,--gpus", "LIST", "N to predict, such as 8,64,512 or 1..8 [twice the largest measured]",
        [this](const std::string& text) { request_.replicas = predict::parse_counts(text, "--replicas"); });
    flags.value("--link", "NAME|ALPHA,BANDWIDTH",
                "Between hosts: a kind of link, or latency and bandwidth such as 5us,12.5GB/s [as measured]",
                [this](const std::string& text) { request_.link = predict::parse_link(text, "--link"); });
    flags.value("--per-host", "N", "Replicas on a host, with --link [as many as were measured on one]",
                [this](const std::string& text) {
                  request_.per_host = config::parse_integer(text, "--per-host", 1, config::max_replicas);
                });
    flags.repeated("--allreduce", "FILE", "What dtrain allreduce --json measured; may be repeated",
                   [this](const std::string& text) { sweeps_.push_back(text); });
    declare_model_flag(flags, "Another model than was measured: a coarse guess", model_);
    flags.group("Output");
    flags.value("--format", "LIST", fmt::format("Of {} [console]", join(predict::formats().names(), ",")),
                [this](const std::string& text) {
                  formats_.clear();
                  for (const auto& part : split(text, ',')) {
                    formats_.push_back(predict::formats().at(part).name);
                  }
                });
    flags.path("--out", "DIR", "Write files into this folder [to the screen]", out_);
  }

  ExitCode run(const std::string&) override {
    require_sense();
    if (!model_.empty()) request_.model = model::find_model(model_);
    for (const auto& path : sweeps_) request_.sweeps.push_back(predict::read_sweep(path));
    const report::Result result = report::read_result(paths_.front());
    request_.file = paths_.front();
    const predict::Prediction prediction = predict::predict(result, request_);
    show(prediction);
    return prediction.refusal.empty() ? ExitCode::fine : ExitCode::no_verdict;
  }

 private:
  // Before any file is read.
  void require_sense() const {
    if (paths_.size() > 1) {
      throw usage_error(fmt::format("{} results were given, and a prediction rests on one", paths_.size()),
                        "predict from one at a time");
    }
    if (out_.empty() && formats_.size() > 1) {
      throw usage_error(
          fmt::format("--format {}: one format at a time goes to the screen", join(formats_, ",")),
          "give --out DIR to write several");
    }
    if (out_.empty()) return;
    const bool any = std::any_of(formats_.begin(), formats_.end(), [](const auto& name) {
      return !predict::formats().at(name).value.file.empty();
    });
    if (!any) {
      throw usage_error(fmt::format("--format {} makes no file", join(formats_, ",")),
                        "use json, markdown or html with --out");
    }
    require_writable_directory(out_);
  }

  void show(const predict::Prediction& prediction) const {
    for (const auto& format : formats_) {
      const auto& entry = predict::formats().at(format);
      if (format == "console") {
        print_out(predict::to_console(prediction, report::console_style(STDOUT_FILENO)));
      } else if (out_.empty()) {
        print_out(entry.value.render(prediction));
      } else {
        const auto path = std::filesystem::path(out_) / entry.value.file;
        write_atomically(path, entry.value.render(prediction));
        log_info("wrote " + path.string());
      }
    }
    const bool said = std::find(formats_.begin(), formats_.end(), "console") != formats_.end();
    if (!prediction.refusal.empty() && !said) log_warning("no prediction: " + prediction.refusal);
  }

  std::vector<std::string> paths_;
  predict::Request request_;
  std::string model_;
  std::vector<std::string> sweeps_;
  std::vector<std::string> formats_{"console"};
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace dtrain::cli
