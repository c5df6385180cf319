#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Reads the one kind of .npy file that the golden numbers use: format 1.0, little endian, C order; elements
// of any numeric type come back as Value.
template <class Value>
std::vector<Value> read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string bytes = content.str();
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0)
    throw std::runtime_error("not an npy file: " + path.string());
  std::uint16_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + 8, sizeof(header_bytes));
  const std::string header = bytes.substr(10, header_bytes);
  const char* data = bytes.data() + 10 + header_bytes;
  const std::size_t data_bytes = bytes.size() - 10 - header_bytes;

  const auto convert = [&]<class Stored>(Stored) {
    std::vector<Value> values(data_bytes / sizeof(Stored));
    for (std::size_t i = 0; i < values.size(); ++i) {
      Stored stored;
      std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
      values[i] = static_cast<Value>(stored);
    }
    return values;
  };
  if (header.find("'<f4'") != std::string::npos) return convert(float{});
  if (header.find("'<f8'") != std::string::npos) return convert(double{});
  if (header.find("'<i4'") != std::string::npos) return convert(std::int32_t{});
  throw std::runtime_error("unexpected element type in " + path.string());
}
