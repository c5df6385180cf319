#include "datasets/sha256.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/units.hpp"

namespace dtrain::datasets {

std::string sha256_of_file(const std::filesystem::path& path,
                           const std::function<void(std::uint64_t bytes_done)>& progress) {
  const MappedFile file(path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (std::size_t done = 0; good && done < file.bytes().size();) {
    const auto part = file.bytes().subspan(done, std::min<std::size_t>(4 * mib, file.bytes().size() - done));
    good = EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
    done += part.size();
    if (progress) progress(done);
  }
  if (!good || EVP_DigestFinal_ex(context.get(), digest, &length) != 1) {
    throw environment_error("OpenSSL offers no SHA-256", "install OpenSSL 3 with its default provider");
  }
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace dtrain::datasets
