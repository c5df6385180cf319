#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::backend::xla {

// The file to load: `asked`, or libtpu, from TPU_LIBRARY_PATH, the dynamic linker's folders, the packages of
// python3. Environment error where there is none, naming what was looked at.
std::filesystem::path find_plugin(const std::string& asked);

// Whether the machine has a TPU, by its device files.
bool tpu_present();

// libtpu asks the cloud's metadata server what it runs on, for minutes where there is none. Says that it need
// not, unless there is a TPU or the user has said something.
void spare_metadata_server();

}  // namespace dtrain::backend::xla
