#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error_of.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "io/beneath.hpp"
#include "io/listed_once.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "checkpoint.hpp"
#include "released.hpp"

namespace shardweld::app {

namespace {

using formats::Location;

/// The code of note_links' warning.
constexpr const char* kLinksOutside = "links_outside";

/// The directories that hold shards, and those between: of ranks, of parameters.
std::set<fs::path> directories_of(const formats::Location& location) {
    std::set<fs::path> directories{location.directory};
    for (const fs::path shard : location.shard_files) {
        for (fs::path above = shard.parent_path(); !above.empty(); above = above.parent_path()) {
            if (!directories.insert(location.directory / above).second) {
                break;
            }
        }
    }
    return directories;
}

std::vector<fs::directory_entry> readable_entries(const fs::path& directory) {
    try {
        return io::entries_of(directory);
    } catch (const Error&) {
        return {};
    }
}

/// Adds this warning when shards, or directories that hold them, are links that lead out of the
/// checkpoint in `given`. Local.
void note_links(const fs::path& given, formats::Location& location) {
    std::vector<fs::path> links = {location.directory};
    // The listing tells links without a call for each file.
    for (const fs::path& directory : directories_of(location)) {
        for (const fs::directory_entry& entry : readable_entries(directory)) {
            std::error_code unknown;
            if (entry.is_symlink(unknown)) {
                links.push_back(entry.path());
            }
        }
    }
    std::sort(links.begin() + 1, links.end());
    std::size_t n_links = 0;
    std::string first;
    for (const fs::path& link : links) {
        const auto end = io::leads_out_of(link, given);
        if (end && n_links++ == 0) {
            first = printable(link.filename().string()) + " to " + printable(end->string(), 1000);
        }
    }
    if (n_links > 0) {
        location.warnings[kLinksOutside] =
            std::to_string(n_links) + (n_links == 1 ? " link leads" : " links lead") +
            " out of the checkpoint, " + first + ": what they lead to is read as part of it";
    }
}

/// Paths below the directory asked for mean the same on ranks that mount it elsewhere.
void rebase(Location& location, const fs::path& from, const fs::path& to) {
    const auto moved = [&](const fs::path& path) {
        return (to / path.lexically_relative(from)).lexically_normal();
    };
    if (from == to) {
        return;
    }
    location.directory = moved(location.directory);
    if (location.hf_directory) {
        location.hf_directory = moved(*location.hf_directory);
    }
    if (location.tokenizer_directory) {
        location.tokenizer_directory = moved(*location.tokenizer_directory);
    }
    if (location.claims_file) {
        location.claims_file = moved(*location.claims_file);
    }
}

/// What one group's leader found, or all of them together: a location, or the reason why not.
struct Finding {
    std::optional<Location> location;
    std::vector<std::string> unlisted;  ///< of the format's files, those that no listing has
    fs::path directory;                 ///< asked for by that leader
    Error failure{ErrorCode::ok, ""};   ///< where there is no location
    int home = 0;                       ///< that leader; of all the one whose location it is
    bool has_links_outside = false;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.location, self.unlisted, self.directory, self.failure);
    };
};

/// Not that there is no checkpoint, but that it cannot be looked for.
bool cannot_look(ErrorCode code) {
    return code == ErrorCode::io || code == ErrorCode::memory;
}

/// `own`: the request's directory without dots, as in the location.
Finding look_for_checkpoint(const mpi::Comm& comm, const formats::JobInput& request,
                            const fs::path& own) {
    const io::ListedOnce once;
    Finding finding;
    finding.directory = own;
    auto failure = error_of([&] {
        finding.location = formats::locate(request);
        note_links(request.directory, *finding.location);
        require_not_released(finding.location->directory, finding.location->shard_files);
        finding.unlisted = formats::format_of(*finding.location).scan_list(*finding.location);
        std::erase_if(finding.unlisted, [&](const std::string& file) {
            return io::is_file(finding.location->directory / file);
        });
    });
    if (failure) {
        if (cannot_look(failure->code()) && comm.size() > 1) {
            failure->add_context("rank " + std::to_string(comm.rank()) + " (" + comm.host() + ")");
        }
        finding.location.reset();
        finding.failure = std::move(*failure);
    }
    return finding;
}

/// Whether `other` is the better place to read the files beside the shards from: the first one that
/// has a model's config.json.
bool is_better(const Finding& other, const Finding& known) {
    return other.location->hf_directory && !known.location->hf_directory;
}

/// What all groups see beside the shards.
void join_neighbours(const std::map<std::string, Bytes>& bytes, Location& location) {
    location.neighbours.clear();
    for (const auto& [path, size] : bytes) {
        location.neighbours.push_back({path, size});
    }
    std::ranges::sort(location.neighbours,
                      [](const auto& a, const auto& b) { return natural_less(a.path, b.path); });
}

/// One location for all ranks: the best group's, with the shard files of all groups.
Finding find_location(mpi::Comm& comm, const formats::JobInput& request, const HostGroups& hosts) {
    const fs::path own =
        mpi::collectively_get(comm, [&] { return io::without_dots(request.directory); });
    auto all = mpi::gather(
        comm, hosts.is_leader(comm.rank()) ? look_for_checkpoint(comm, request, own) : Finding{});
    std::optional<Finding> first;
    std::optional<Finding> failure;
    std::set<std::string> shard_files;
    std::map<std::string, Bytes> neighbours;
    bool has_links_outside = false;
    for (const int leader : hosts.leaders) {
        Finding finding = std::move(all[as_size(leader)]);
        if (!finding.location) {
            if (cannot_look(finding.failure.code())) {
                throw Error(finding.failure);
            }
            failure = failure ? failure : finding;
            continue;
        }
        if (first && finding.location->format != first->location->format) {
            throw Error(ErrorCode::mismatch,
                        "ranks " + std::to_string(first->home) + " and " + std::to_string(leader) +
                            " see different checkpoints: " + first->location->format + " and " +
                            finding.location->format,
                        "remove the stale copies: the nodes hold different checkpoints");
        }
        has_links_outside = has_links_outside || finding.location->warnings.contains(kLinksOutside);
        shard_files.insert(finding.location->shard_files.begin(),
                           finding.location->shard_files.end());
        for (const formats::Neighbour& neighbour : finding.location->neighbours) {
            Bytes& bytes = neighbours[neighbour.path];
            bytes = std::max(bytes, neighbour.bytes);
        }
        if (!first || is_better(finding, *first)) {
            first = std::move(finding);
            first->home = leader;
        }
    }
    if (!first) {
        throw Error(failure->failure);
    }
    Location& location = *first->location;
    location.shard_files.assign(shard_files.begin(), shard_files.end());
    std::ranges::sort(location.shard_files, natural_less);
    join_neighbours(neighbours, location);
    rebase(location, first->directory, own);
    first->has_links_outside = has_links_outside;
    return *std::move(first);
}

/// Earlier versions could give a checkpoint's space back while they wrote it elsewhere.
void require_no_holes(const fs::path& directory) {
    const fs::path note = directory / ".shardweld-dropping";
    if (io::kind_at(note) != io::FileKind::none) {
        throw Error(ErrorCode::not_found,
                    "parts of " + directory.string() +
                        " may be gone and read as zeros: an earlier version was moving it, as " +
                        note.string() + " tells",
                    "end that with the version that began it, or restore the checkpoint from a "
                    "copy and remove the note");
    }
}

}  // namespace

std::string Checkpoint::of_role() const {
    switch (role) {
        case formats::Role::weights:
            break;
        case formats::Role::base:
            return " of the base";
        case formats::Role::mixed:
            return " of " + given.string();
        case formats::Role::like:
            return " of the template";
        case formats::Role::supplement:
            return " of the reference";
        case formats::Role::compared:
            return " of " + printable((given / "").parent_path().filename().string());
    }
    return "";
}

void Checkpoint::leave_to(mpi::Comm& leaders) {
    home = static_cast<int>(visibility.hosts().group_of_rank[as_size(home)]);
    visibility.leave_to(leaders);
}

void telling_of_older_save(const mpi::Comm& comm, const formats::JobInput& request,
                           const fs::path& directory, const std::function<void()>& step) {
    try {
        step();
    } catch (Error& error) {
        if (comm.rank() == 0) {
            formats::add_older_save(request, directory, error);
        }
        throw;
    }
}

Checkpoint find_checkpoint(mpi::Comm& comm, const formats::JobInput& asked) {
    formats::JobInput request = asked;
    request.directory =
        mpi::collectively_get(comm, [&] { return formats::named_directory(request.directory); });
    HostGroups hosts = host_groups(comm, request.directory, false);
    Finding at = find_location(comm, request, hosts);
    if (at.has_links_outside) {
        hosts = host_groups(comm, request.directory, true);
        at = find_location(comm, request, hosts);
    }
    Checkpoint found{asked.use, asked.directory, *std::move(at.location), at.home};
    const fs::path& directory = found.location.directory;
    FileVisibility& visibility = found.visibility = {comm, std::move(hosts), directory};
    const formats::Format& format = formats::format_of(found.location);
    found.files = mpi::share(comm, found.home, [&] { return format.scan_list(found.location); });
    // What a listing has named will be opened: that tells more than a look.
    const std::vector<std::string>& doubted = visibility.is_one_view() ? at.unlisted : found.files;
    found.sizes = visibility.sizes_of(doubted);
    telling_of_older_save(comm, request, directory,
                          [&] { check_seen(found.sizes, doubted, directory, visibility.hosts()); });
    if (visibility.is_one_view()) {
        // Files of a listing are taken for seen: opening them tells more than looking at them, and
        // what fails is looked into then.
        found.sizes = {std::vector<Index>(found.files.size(), 0)};
    }
    mpi::collectively(comm, [&] {
        if (comm.rank() == found.home) {
            require_no_holes(directory);
        }
    });
    return found;
}

}  // namespace shardweld::app
