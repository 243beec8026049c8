#include "released.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

// More than enough of them to meet one where many are released.
constexpr std::size_t kSamples = 32;
// Files that one call is asked about: its command line has their names.
constexpr std::size_t kAskedTogether = 500;
constexpr double kToolSeconds = 60;
constexpr Bytes kSmallFile = 65536;
constexpr Bytes kStatBlock = 512;

constexpr const char* kAskLustre = "hsm_state";

/// What tells of released files, without their names.
std::optional<process::Process> find_archive_tool() {
    const std::string path = variable("PATH").value_or("");
    if (auto lfs = process::find_program("lfs", path)) {
        return process::Process{*std::move(lfs), {kAskLustre}, {}, kToolSeconds, {}};
    }
    if (auto attributes = process::find_program("mmlsattr", path + ":/usr/lpp/mmfs/bin")) {
        return process::Process{*std::move(attributes), {"-L"}, {}, kToolSeconds, {}};
    }
    return std::nullopt;
}

bool is_of_lustre(const process::Process& tool) {
    return tool.arguments.front() == kAskLustre;
}

/// Whether less than a quarter of a file lies on disk: released files, and sparse ones.
bool is_mostly_elsewhere(const fs::path& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           static_cast<Bytes>(status.st_size) > kSmallFile &&
           static_cast<Bytes>(status.st_blocks) * kStatBlock <
               static_cast<Bytes>(status.st_size) / 4;
}

/// The paths among these that the tool calls released; none where it does not answer.
std::vector<std::string> ask_archive(const process::Process& tool,
                                     const std::vector<std::string>& paths) {
    constexpr std::string_view kName = "file name:";
    std::vector<std::string> released;
    for (std::size_t begin = 0; begin < paths.size(); begin += kAskedTogether) {
        process::Process ask = tool;
        const std::size_t end = std::min(paths.size(), begin + kAskedTogether);
        ask.arguments.insert(ask.arguments.end(),
                             paths.begin() + static_cast<std::ptrdiff_t>(begin),
                             paths.begin() + static_cast<std::ptrdiff_t>(end));
        std::string told;  // what `mmlsattr -L` prints of a file begins with its name
        ask.on_line = [&](std::string_view line) {
            if (is_of_lustre(tool)) {
                if (std::string file = released_in(std::string(line)); !file.empty()) {
                    released.push_back(std::move(file));
                }
            } else if (line.starts_with(kName)) {
                told = trim(line.substr(kName.size()));
            } else if (has_part(line, "ttributes:") && has_part(line, "OFFLINE")) {
                released.push_back(told);
            }
        };
        (void)process::run(ask);
    }
    return released;
}

}  // namespace

std::string released_in(const std::string& line) {
    // "/scratch/x.distcp: (0x0000000d) released exists archived, archive_id:1"
    const std::size_t flags = line.rfind(": (0x");
    return flags != std::string::npos && line.find(" released", flags) != std::string::npos
               ? line.substr(0, flags)
               : "";
}

void require_not_released(const fs::path& directory, const std::vector<std::string>& files) {
    const auto tool = files.empty() ? std::nullopt : find_archive_tool();
    if (!tool) {
        return;
    }
    const std::size_t n_samples = std::min(files.size(), kSamples);
    bool is_any = false;
    for (std::size_t i = 0; i < n_samples; ++i) {
        is_any = is_any || is_mostly_elsewhere(directory / files[i * files.size() / n_samples]);
    }
    if (!is_any) {
        return;
    }
    std::vector<std::string> asked;
    for (const std::string& file : files) {
        if (const fs::path path = directory / file; is_mostly_elsewhere(path)) {
            asked.push_back(path.string());
        }
    }
    const std::vector<std::string> released = ask_archive(*tool, asked);
    if (released.empty()) {
        return;
    }
    throw Error(ErrorCode::io,
                std::to_string(released.size()) + " of " + counted(files.size(), "shard file") +
                    " in " + directory.string() +
                    " lie in an archive only (HSM), and each would be brought back when it is "
                    "read: " +
                    printable(released.front(), 1000) + (released.size() > 1 ? ", ..." : ""),
                is_of_lustre(*tool)
                    ? "bring them back together (`lfs hsm_restore FILES`), and start again when "
                      "`lfs hsm_state` no longer calls them released"
                    : "bring them back together, as your site does it (dsmrecall, eeadm recall), "
                      "and start again then");
}

}  // namespace shardweld::app
