#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace dtrain::measure {

// A growing file that holds one JSON array, strictly valid whenever it is read, also after the process was
// killed in the middle of a write.
//
// A write can be cut by a kill, so that no write to the visible file is safe. Two copies take turns: a block
// goes to the one that nobody sees (".NAME.next" beside it), then both exchange names in one step. Every byte
// is written twice and none is rewritten. Where the file system cannot exchange names, blocks are written in
// place over the closing bracket: only a kill within that write cuts the file.
//
// Environment errors name the file.
class JsonArrayFile {
 public:
  explicit JsonArrayFile(const std::filesystem::path& path);
  ~JsonArrayFile();
  JsonArrayFile(const JsonArrayFile&) = delete;
  JsonArrayFile& operator=(const JsonArrayFile&) = delete;

  // One or more elements, parted by ",\n", with nothing before or after.
  void append(std::string_view elements);

 private:
  struct Copy {
    std::filesystem::path path;
    int fd = -1;
    off_t end = 0;  // where the closing bracket stands
  };
  void extend(Copy& copy, std::string_view block);

  Copy visible_;
  Copy next_;            // fd < 0: blocks are written in place
  std::string missing_;  // what `next_` lacks
};

}  // namespace dtrain::measure
