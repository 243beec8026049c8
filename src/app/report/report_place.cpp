#include "report_place.hpp"

#include <cerrno>

#include <unistd.h>

#include "shardweld/core/errno.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/io/kind.hpp"
#include "shardweld/io/paths.hpp"
#include "shardweld/publish/report_file.hpp"

namespace shardweld::app {

namespace {

/// Why nothing can be written there, "" when it can.
std::string why_not_writable(const fs::path& directory) {
    switch (io::kind_at(directory)) {
        case io::FileKind::none:
            return "there is no directory " + directory.string();
        case io::FileKind::directory:
            break;
        default:
            return directory.string() + " is not a directory";
    }
    return ::eaccess(directory.c_str(), W_OK | X_OK) == 0
               ? ""
               : "no right to write in " + directory.string() + ": " + text_of_errno(errno);
}

}  // namespace

void require_report_place(const fs::path& report, const std::optional<fs::path>& target) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::io,
                    "the report " + report.string() + " could not be written: " + why,
                    "choose another place for --report");
    };
    if (const std::string why = publish::why_not_replaced(report); !why.empty()) {
        refuse(why);
    }
    const fs::path directory = io::resolved(report).parent_path();
    if (target) {
        const fs::path model = io::resolved(*target);
        const bool is_made =
            io::kind_at(directory) == io::FileKind::none && io::is_within(model, directory);
        if (is_made || io::is_within(directory, model)) {
            return;
        }
    }
    if (const std::string why = why_not_writable(directory); !why.empty()) {
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
