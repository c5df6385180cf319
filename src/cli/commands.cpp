#include "cli/command.hpp"

namespace dtrain::cli {

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_bench_command());
  commands.push_back(make_train_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_launch_command());
  commands.push_back(make_allreduce_command());
  commands.push_back(make_compare_command());
  commands.push_back(make_ab_command());
  commands.push_back(make_predict_command());
  commands.push_back(make_report_command());
  commands.push_back(make_data_generate_command());
  commands.push_back(make_data_fetch_command());
  commands.push_back(make_data_inspect_command());
  commands.push_back(make_info_command());
  commands.push_back(make_completion_command());
  return commands;
}

}  // namespace dtrain::cli
