#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/result.hpp"

namespace dtrain::report {

// What a benchmark writes unless told otherwise: json, csv, markdown, html.
std::vector<std::string> default_formats();

// The files these formats make in `folder`. Formats without a file (console) make none; a format named twice
// makes one. An unknown format is a usage error.
std::vector<std::filesystem::path> output_paths(const std::filesystem::path& folder,
                                                const std::vector<std::string>& formats);

// Environment error, before any work, when one of them could not be written. Changes nothing that is there.
void open_outputs(const std::filesystem::path& folder, const std::vector<std::string>& formats);

// Each file is replaced in one step; nothing else in the folder is touched. Returns what was written.
std::vector<std::filesystem::path> write_outputs(const std::filesystem::path& folder,
                                                 const std::vector<std::string>& formats,
                                                 const Result& result);

// A complete result's copy under a name of its own, folder/history/<time of creation>-<hash>.json, so that a
// folder that is written to again and again keeps them all. Writing the same result again makes no second
// copy. Nothing for an incomplete one: returns an empty path.
std::filesystem::path keep_in_history(const std::filesystem::path& folder, const Result& result);

}  // namespace dtrain::report
