// What lies in a step's directory, by names, sizes and times: no file is opened.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/path.hpp"
#include "io/stamp.hpp"

namespace shardweld::app::watching {

struct StepFile {
    std::string path;  ///< relative to the step's directory
    io::FileStamp stamp;
};

struct StepFiles {
    std::vector<StepFile> files;  ///< in the order of their paths

    /// The file of this path; nullptr where there is none.
    [[nodiscard]] const StepFile* find(std::string_view path) const;
    /// A short text that is another one once a file came, went or was written to.
    [[nodiscard]] std::string print() const;
};

/// All files below a directory, those of linked directories left out; none where it is gone. What
/// goes while this looks is not among them. Local. Error(io).
StepFiles files_of(const fs::path& step);

}  // namespace shardweld::app::watching
