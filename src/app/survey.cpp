#include "survey.hpp"

#include <algorithm>
#include <set>

#include "shardweld/core/text.hpp"

#include "views.hpp"

namespace shardweld::app {

namespace {

namespace fs = std::filesystem;
using catalogue::Catalogue;
using formats::Location;

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

/// Whether `other` is the better place to read the files beside the shards from: the first one that
/// has a model's config.json.
bool is_better(const Finding& other, const Finding& known) {
    return other.location->hf_directory && !known.location->hf_directory;
}

/// One location for all ranks: the best group's, with the shard files of all groups.
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
        if (!first || is_better(finding, *first)) {
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

/// Calls `handle` for each file of this rank and gathers what it wrote, by file, on all ranks.
std::vector<std::vector<std::byte>> spread(
    mpi::Comm& comm, const Views& views, const SizesByGroup& sizes, std::size_t n_files,
    const std::function<void(std::size_t, ByteWriter&)>& handle) {
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

void resolve_all(mpi::Comm& comm, const Views& views, const SizesByGroup& sizes,
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
