#pragma once

#include <toml++/toml.h>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::model {

using Names = std::vector<std::string>;

// "did you mean 'relu'? known: convolution, dense, ..."
std::string suggestion(const std::string& word, const Names& known);

// A table of a model file, which outlives it. Every error is a data error that says where it is: file, line,
// layer, key.
class FileSection {
 public:
  FileSection(std::string file, const toml::table& table, std::string label)
      : file_(std::move(file)), table_(&table), label_(std::move(label)) {}

  std::size_t line() const { return table_->source().begin.line; }
  bool has(const char* key) const { return table_->contains(key); }

  [[noreturn]] void fail(std::size_t line, const std::string& what, const std::string& advice) const;
  [[noreturn]] void fail(const char* key, const std::string& what, const std::string& advice) const;
  void require_known(const Names& known) const;

  // The value of a key; `otherwise` where it is not there, an error where there is no `otherwise` either.
  std::string text(const char* key, const std::optional<std::string>& otherwise) const;
  int whole(const char* key, std::optional<int> otherwise, int low, int high) const;
  float number(const char* key, float otherwise, float low, float high) const;
  bool yes(const char* key, bool otherwise) const;
  Names words(const char* key) const;
  // Of an array of tables, [[key]].
  std::vector<const toml::table*> tables(const char* key) const;

 private:
  const toml::node* find(const char* key, bool may_miss, const std::string& wanted) const;
  [[noreturn]] void wrong(const toml::node& node, const char* key, const std::string& wanted) const;

  std::string file_;
  const toml::table* table_;
  std::string label_;
};

}  // namespace dtrain::model
