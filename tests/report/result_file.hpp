#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "report/result.hpp"
#include "sample_results.hpp"

namespace dtrain::report {

// A folder with a result.json of its own: written, read back, or refused.
class ResultFile : public testing::Test {
 protected:
  ResultFile() { std::filesystem::create_directories(folder_); }
  ~ResultFile() override { std::filesystem::remove_all(folder_); }

  void save(const std::string& text, const std::string& name = "result.json") const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  Result reread(const Result& result) { return read_text(to_json(result)); }
  Result read_text(const std::string& text) {
    save(text);
    return read_result(file_);
  }
  // The error of reading this text.
  std::string refusal(const std::string& text) {
    save(text);
    return refusal_of(file_);
  }
  static std::string refusal_of(const std::filesystem::path& path) {
    try {
      read_result(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::data);
      EXPECT_FALSE(error.advice().empty());
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return {};
  }
  std::string refusal_without(const nlohmann::json::json_pointer& key) {
    nlohmann::json root = nlohmann::json::parse(to_json(scaling_result()));
    root.at(key.parent_pointer()).erase(key.back());
    return refusal(root.dump());
  }
  std::string refusal_with(const nlohmann::json::json_pointer& key, const nlohmann::json& value) {
    nlohmann::json root = nlohmann::json::parse(to_json(scaling_result()));
    root[key] = value;
    return refusal(root.dump());
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("dtrain-result-{}", ::getpid());
  std::filesystem::path file_ = folder_ / "result.json";
};

}  // namespace dtrain::report
