#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.hpp"

namespace dtrain {

// Values one after the other, as they lie in memory: for processes of the same build.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      const std::string_view text = value;
      put(text.size());
      bytes_.append(text);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
    return *this;
  }
  template <class T>
  ByteWriter& put(const std::vector<T>& values) {
    put(values.size());
    if constexpr (std::is_trivially_copyable_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    } else {
      for (const auto& value : values) put(value);
    }
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads them back in the same order. Run error, naming `what`, where they do not hold what is asked for.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  template <class T>
  T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(take(get<std::size_t>()));
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      T value;
      std::memcpy(static_cast<void*>(&value), take(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  template <class T>
  std::vector<T> get_all() {
    const auto count = get<std::size_t>();
    std::vector<T> values;
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (count > bytes_.size() / sizeof(T)) refuse();
      const std::string_view raw = take(count * sizeof(T));
      values.resize(count);
      if (count != 0) std::memcpy(static_cast<void*>(values.data()), raw.data(), raw.size());
    } else {
      for (std::size_t i = 0; i < count; ++i) values.push_back(get<T>());
    }
    return values;
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] void refuse() const {
    throw run_error(what_ + " is cut short", "this is a fault in the program: please report it");
  }

  std::string_view bytes_;
  std::string what_;
};

}  // namespace dtrain
