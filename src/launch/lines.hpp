#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace dtrain::launch {

// Cuts a stream of bytes into lines. A carriage return starts the line again, as on a terminal, so that of a
// progress line only the last state remains. A line without end is cut at 64 KiB.
class Lines {
 public:
  using Take = std::function<void(const std::string& line)>;  // without its end

  void add(std::string_view bytes, const Take& take);
  void finish(const Take& take);  // what has no line end

 private:
  std::string line_;
  bool returned_ = false;  // a carriage return came last: the next byte tells what it means
};

}  // namespace dtrain::launch
