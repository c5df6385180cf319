#pragma once

#include <string>

namespace dtrain::cluster {

// What is logged while it lives, one line each. One at a time.
class CapturedLog {
 public:
  CapturedLog();
  ~CapturedLog();
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const;
};

}  // namespace dtrain::cluster
