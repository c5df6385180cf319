#include "dtrain/program.hpp"

int main(int argc, char** argv) {
  return dtrain::run_program([&] { return dtrain::run_command_line(argc, argv); });
}
