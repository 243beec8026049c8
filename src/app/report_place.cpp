#include "report_place.hpp"

#include <cerrno>

#include <unistd.h>

#include "shardweld/core/errno.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"

namespace shardweld::app {

namespace {

/// Links resolved as far as it exists.
fs::path resolved(const fs::path& path) {
    std::error_code failed;
    fs::path whole = fs::weakly_canonical(fs::absolute(path), failed);
    if (failed) {
        throw Error(ErrorCode::io,
                    "cannot resolve " + path.string() + ": " + text_of_errno(failed.value()));
    }
    return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether `path` is `directory` or lies below it; both resolved.
bool is_within(const fs::path& path, const fs::path& directory) {
    const fs::path relative = path.lexically_relative(directory);
    return !relative.empty() && *relative.begin() != "..";
}

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

}  // namespace

void require_report_place(const fs::path& report, const std::optional<fs::path>& target) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::io, "the report " + report.string() + " could not be written: " +
                                       why + "; choose another place for --report");
    };
    const io::Kind kind = io::kind_at(report);
    if (kind == io::Kind::directory || kind == io::Kind::other) {
        refuse(kind == io::Kind::directory ? "it is a directory" : "it is no regular file");
    }
    const fs::path directory = resolved(report).parent_path();
    if (target) {
        const fs::path model = resolved(*target);
        const bool is_made =
            io::kind_at(directory) == io::Kind::none && is_within(model, directory);
        if (is_made || is_within(directory, model)) {
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
