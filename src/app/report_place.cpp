#include "report_place.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <unistd.h>

#include "shardweld/core/errno.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"
#include "shardweld/io/paths.hpp"

namespace shardweld::app {

namespace {

/// Why nothing can be written there, "" when it can.
std::string obstacle(const fs::path& directory) {
    switch (io::kind_at(directory)) {
        case io::Kind::none:
            return "there is no directory " + directory.string();
        case io::Kind::directory:
            break;
        default:
            return directory.string() + " is no directory";
    }
    return ::eaccess(directory.c_str(), W_OK | X_OK) == 0
               ? ""
               : "no right to write in " + directory.string() + ": " + text_of_errno(errno);
}

/// Whether a file is what all reports begin as; an empty one stands for one.
bool is_report(const fs::path& path) {
    const io::InputFile file = io::InputFile::open(path);
    std::vector<std::byte> begin(std::min<Bytes>(file.size(), 64));
    file.read_at(0, begin);
    std::string text(reinterpret_cast<const char*>(begin.data()), begin.size());
    std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\n'; });
    return begin.empty() || text.starts_with("{\"schema\":");
}

}  // namespace

std::string why_not_replaced(const fs::path& report) {
    switch (io::kind_at(report)) {
        case io::Kind::none:
            return "";
        case io::Kind::directory:
            return "it is a directory";
        case io::Kind::file:
            return is_report(report) ? "" : "it is there and holds something else than a report";
        default:
            return "it is no regular file";
    }
}

void require_report_place(const fs::path& report, const std::optional<fs::path>& target) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::io, "the report " + report.string() + " could not be written: " +
                                       why + "; choose another place for --report");
    };
    if (const std::string why = why_not_replaced(report); !why.empty()) {
        refuse(why);
    }
    const fs::path directory = io::resolved(report).parent_path();
    if (target) {
        const fs::path model = io::resolved(*target);
        const bool is_made =
            io::kind_at(directory) == io::Kind::none && io::is_within(model, directory);
        if (is_made || io::is_within(directory, model)) {
            return;
        }
    }
    if (const std::string why = obstacle(directory); !why.empty()) {
        refuse(why);
    }
}

void check_report(mpi::Comm& comm, const Options& options, const std::optional<fs::path>& target) {
    mpi::collectively(comm, [&] {
        if (options.report && comm.rank() == 0) {
            require_report_place(*options.report, target);
        }
    });
}

}  // namespace shardweld::app
