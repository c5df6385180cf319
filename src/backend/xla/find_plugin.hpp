#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::backend::xla {

// The file to load: `asked`, or libtpu, from TPU_LIBRARY_PATH, the dynamic linker's folders, the packages of
// python3. Environment error where there is none, naming what was looked at, and where nobody named one and
// there is no TPU, which libtpu itself would tell at length.
std::filesystem::path find_plugin(const std::string& asked);

// Whether the machine has a TPU, by its device files.
bool tpu_present();

// Says to plugins, where the user has not, that they need not report every little thing, and to libtpu on a
// machine without a TPU that it need not ask the cloud's metadata server about it, which takes minutes.
void quieten_plugins();

}  // namespace dtrain::backend::xla
