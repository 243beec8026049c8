#include "survey.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <sys/stat.h>

#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

namespace fs = std::filesystem;
using catalogue::Catalogue;
using formats::Location;

/// Who sees what: ranks with equal keys share one view of the file systems.
struct Views {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<int> leaders;  ///< lowest rank of each group

    [[nodiscard]] bool leads(int rank) const {
        return leaders[group_of_rank[static_cast<std::size_t>(rank)]] == rank;
    }
};

/// Host, mount namespace and identity of the directory: equal for ranks that see the same files.
std::string view_key(const mpi::Comm& comm, const fs::path& directory) {
    std::error_code ignored;
    std::string key = comm.host() + " " + fs::read_symlink("/proc/self/ns/mnt", ignored).string();
    struct stat status {};
    if (stat(directory.c_str(), &status) == 0) {
        key += " " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    }
    return key;
}

Views group_views(mpi::Comm& comm, const fs::path& directory) {
    const std::string key = view_key(comm, directory);
    Views views;
    std::map<std::vector<std::byte>, std::uint32_t> groups;
    const auto keys = comm.all_gather(std::as_bytes(std::span(key)));
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
        const auto [at, is_new] =
            groups.try_emplace(keys[rank], static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            views.leaders.push_back(static_cast<int>(rank));
        }
        views.group_of_rank.push_back(at->second);
    }
    return views;
}

/// A path given relative to the directory asked for, so that it means the same on ranks that mount
/// it elsewhere.
fs::path relative_to(const fs::path& path, const fs::path& directory) {
    return fs::absolute(path).lexically_normal().lexically_relative(
        fs::absolute(directory).lexically_normal());
}

void rebase(Location& location, const fs::path& from, const fs::path& to) {
    const auto moved = [&](const fs::path& path) {
        return (to / relative_to(path, from)).lexically_normal();
    };
    if (fs::absolute(from).lexically_normal() == fs::absolute(to).lexically_normal()) {
        return;
    }
    location.directory = moved(location.directory);
    if (location.hf_directory) {
        location.hf_directory = moved(*location.hf_directory);
    }
    if (location.claims_file) {
        location.claims_file = moved(*location.claims_file);
    }
}

/// What one group's leader found: a location, or the reason why not.
struct Finding {
    std::optional<Location> location;
    std::string directory;  ///< asked for by that leader
    ErrorCode code = ErrorCode::ok;
    std::string message;
};

std::vector<std::byte> look(const formats::Request& request) {
    ByteWriter out;
    out.put_text(request.directory.string());
    try {
        const Location location = formats::locate(request);
        out.put(ErrorCode::ok);
        formats::encode(location, out);
    } catch (const Error& error) {
        out.put(error.code());
        out.put_text(error.full_text());
    }
    return out.take();
}

Finding decode_finding(const std::vector<std::byte>& bytes) {
    ByteReader in(bytes);
    Finding finding;
    finding.directory = in.get_text();
    finding.code = in.get<ErrorCode>();
    if (finding.code == ErrorCode::ok) {
        finding.location = formats::decode_location(in);
    } else {
        finding.message = in.get_text();
    }
    return finding;
}

/// One location for all ranks: the first group's, with the shard files of all groups.
void find_checkpoint(mpi::Comm& comm, const formats::Request& request, const Views& views,
                     Survey& survey) {
    const auto mine = views.leads(comm.rank()) ? look(request) : std::vector<std::byte>{};
    const auto all = comm.all_gather(mine);
    std::optional<Finding> first;
    std::optional<Finding> failure;
    std::set<std::string> shard_files;
    for (const int leader : views.leaders) {
        Finding finding = decode_finding(all[static_cast<std::size_t>(leader)]);
        if (!finding.location) {
            failure = failure ? failure : finding;
            continue;
        }
        if (first && finding.location->format != first->location->format) {
            throw Error(ErrorCode::mismatch,
                        "ranks " + std::to_string(survey.home) + " and " + std::to_string(leader) +
                            " see different checkpoints: " + first->location->format + " and " +
                            finding.location->format);
        }
        shard_files.insert(finding.location->shard_files.begin(),
                           finding.location->shard_files.end());
        if (!first) {
            survey.home = leader;
            first = std::move(finding);
        }
    }
    if (!first) {
        throw Error(failure->code, failure->message);
    }
    survey.location = *first->location;
    survey.location.shard_files.assign(shard_files.begin(), shard_files.end());
    std::sort(survey.location.shard_files.begin(), survey.location.shard_files.end(), natural_less);
    rebase(survey.location, first->directory, request.directory);
}

/// Sizes of files as each group sees them; -1: not there.
std::vector<std::vector<Index>> see(mpi::Comm& comm, const Views& views, const fs::path& directory,
                                    const std::vector<std::string>& files) {
    std::vector<Index> mine;
    if (views.leads(comm.rank())) {
        for (const std::string& file : files) {
            std::error_code error;
            const auto size = fs::file_size(directory / file, error);
            mine.push_back(error ? -1 : static_cast<Index>(size));
        }
    }
    const auto all = comm.all_gather(std::as_bytes(std::span(mine)));
    std::vector<std::vector<Index>> sizes;
    for (const int leader : views.leaders) {
        const auto& bytes = all[static_cast<std::size_t>(leader)];
        std::vector<Index>& group = sizes.emplace_back(bytes.size() / sizeof(Index));
        if (!group.empty()) {
            std::memcpy(group.data(), bytes.data(), bytes.size());
        }
    }
    return sizes;
}

/// Every file must be seen by some group, with one size. Lists all that are missing.
void check_seen(const std::vector<std::vector<Index>>& sizes, const std::vector<std::string>& files,
                const fs::path& directory) {
    std::string missing;
    std::size_t n_missing = 0;
    for (std::size_t file = 0; file < files.size(); ++file) {
        Index size = -1;
        for (const auto& group : sizes) {
            if (group[file] >= 0 && size >= 0 && group[file] != size) {
                throw Error(ErrorCode::mismatch,
                            "file " + files[file] + " is " + std::to_string(size) +
                                " bytes on one node and " + std::to_string(group[file]) +
                                " on another: the nodes hold different checkpoints");
            }
            size = std::max(size, group[file]);
        }
        if (size < 0 && ++n_missing <= 8) {
            missing += (missing.empty() ? "" : ", ") + files[file];
        }
    }
    if (n_missing > 0) {
        throw Error(ErrorCode::not_found,
                    std::to_string(n_missing) +
                        " file(s) of the checkpoint are missing on every rank: " + missing +
                        (n_missing > 8 ? ", ..." : "") + " in " + directory.string() +
                        "; copy them there, or merge where they are");
    }
}

/// The rank that handles file number `file`: spread over those that see it.
int handler_of(std::size_t file, const std::vector<std::vector<Index>>& sizes, const Views& views) {
    std::vector<int> able;
    for (std::size_t rank = 0; rank < views.group_of_rank.size(); ++rank) {
        if (sizes[views.group_of_rank[rank]][file] >= 0) {
            able.push_back(static_cast<int>(rank));
        }
    }
    return able[file % able.size()];
}

/// Calls `handle` for each file of this rank and gathers what it wrote, by file, on all ranks.
std::vector<std::vector<std::byte>> spread(
    mpi::Comm& comm, const Views& views, const std::vector<std::vector<Index>>& sizes,
    std::size_t n_files, const std::function<void(std::size_t, ByteWriter&)>& handle) {
    ByteWriter mine;
    mpi::collectively(comm, [&] {
        for (std::size_t file = 0; file < n_files; ++file) {
            if (handler_of(file, sizes, views) == comm.rank()) {
                ByteWriter one;
                handle(file, one);
                mine.put<std::uint64_t>(file);
                mine.put_all<std::byte>(one.take());
            }
        }
    });
    std::vector<std::vector<std::byte>> by_file(n_files);
    for (const auto& bytes : comm.all_gather(mine.take())) {
        ByteReader in(bytes);
        while (!in.at_end()) {
            const auto file = in.get<std::uint64_t>();
            by_file[file] = in.get_all<std::byte>();
        }
    }
    return by_file;
}

/// One rank's list on all ranks.
std::vector<std::string> share_list(mpi::Comm& comm, int home,
                                    const std::function<std::vector<std::string>()>& list) {
    ByteWriter out;
    mpi::collectively(comm, [&] {
        if (comm.rank() == home) {
            for (const std::string& entry : list()) {
                out.put_text(entry);
            }
        }
    });
    const auto bytes = comm.broadcast(out.take(), home);
    ByteReader in(bytes);
    std::vector<std::string> shared;
    while (!in.at_end()) {
        shared.push_back(in.get_text());
    }
    return shared;
}

Catalogue scan_all(mpi::Comm& comm, const Views& views, const Location& location, int home) {
    const formats::Format& format = formats::format_of(location);
    const std::vector<std::string> files =
        share_list(comm, home, [&] { return format.scan_list(location); });
    const auto sizes = see(comm, views, location.directory, files);
    check_seen(sizes, files, location.directory);
    const auto encoded =
        spread(comm, views, sizes, files.size(), [&](std::size_t file, ByteWriter& out) {
            catalogue::encode(format.scan(location, files[file]), out);
        });
    std::vector<Catalogue> scans;
    for (const auto& bytes : encoded) {
        ByteReader in(bytes);
        scans.push_back(catalogue::decode_catalogue(in));
    }
    return mpi::collectively_get(comm, [&] { return format.combine(location, std::move(scans)); });
}

void resolve_all(mpi::Comm& comm, const Views& views, const std::vector<std::vector<Index>>& sizes,
                 const Location& location, Catalogue& catalogue) {
    const std::vector<std::uint32_t> files = formats::resolve_list(catalogue);
    if (files.empty()) {
        return;
    }
    const formats::Format& format = formats::format_of(location);
    // A format goes through the catalogue once a call, so each rank resolves its files together.
    std::vector<std::uint32_t> mine;
    for (const std::uint32_t file : files) {
        if (handler_of(file, sizes, views) == comm.rank()) {
            mine.push_back(file);
        }
    }
    ByteWriter out;
    mpi::collectively(comm,
                      [&] { formats::encode(format.resolve(location, catalogue, mine), out); });
    std::vector<formats::Resolution> resolutions;
    for (const auto& bytes : comm.all_gather(out.take())) {
        ByteReader in(bytes);
        resolutions.push_back(formats::decode_resolution(in));
    }
    mpi::collectively(comm, [&] { formats::settle(catalogue, resolutions); });
}

}  // namespace

Survey survey(mpi::Comm& comm, const formats::Request& request) {
    Survey survey;
    const Views views = group_views(comm, request.directory);
    find_checkpoint(comm, request, views, survey);
    survey.catalogue = scan_all(comm, views, survey.location, survey.home);
    std::vector<std::string> files;
    for (const catalogue::File& file : survey.catalogue.files) {
        files.push_back(file.path);
    }
    const auto sizes = see(comm, views, survey.location.directory, files);
    check_seen(sizes, files, survey.location.directory);
    resolve_all(comm, views, sizes, survey.location, survey.catalogue);
    survey.visibility.group_of_rank = views.group_of_rank;
    for (const auto& group : sizes) {
        std::vector<bool>& sees = survey.visibility.group_sees.emplace_back();
        for (const Index size : group) {
            sees.push_back(size >= 0);
        }
    }
    return survey;
}

}  // namespace shardweld::app
