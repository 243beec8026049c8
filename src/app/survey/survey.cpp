#include "survey.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "io/beneath.hpp"
#include "io/input_file.hpp"
#include "io/listed_once.hpp"
#include "io/openings.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "released.hpp"

namespace shardweld::app {

namespace {

/// Tensors and shards have the same fields.
template <typename Tensor>
std::uint64_t hash_of(const Tensor& tensor) {
    Fingerprint print;
    print.add(tensor.name);
    print.add(static_cast<std::uint64_t>(tensor.dtype));
    for (const Index extent : tensor.shape) {
        print.add(static_cast<std::uint64_t>(extent));
    }
    return print.value();
}

/// What one file's metadata say, as it is read.
struct FileSays {
    Fingerprint print;
    bool has_all_checksums = true;

    void add(std::uint64_t tensor, const catalogue::Piece& piece) {
        print.add(tensor);
        for (const std::uint64_t number :
             {std::uint64_t{piece.replica}, piece.base, piece.storage_bytes,
              static_cast<std::uint64_t>(piece.patch.offset), std::uint64_t{piece.crc32}}) {
            print.add(number);
        }
        for (const layout::Axis& axis : piece.patch.axes) {
            for (const Index number : {axis.lo, axis.extent, axis.stride}) {
                print.add(static_cast<std::uint64_t>(number));
            }
        }
        has_all_checksums = has_all_checksums && piece.crc32 != 0;
    }
};

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

using catalogue::Catalogue;
using formats::Location;

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

/// What one group's leader found: a location, or the reason why not.
struct Finding {
    std::optional<Location> location;
    std::vector<std::string> unlisted;  ///< of the format's files, those that no listing has
    fs::path directory;                 ///< asked for by that leader
    Error failure{ErrorCode::ok, ""};   ///< where there is no location

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.location, self.unlisted, self.directory, self.failure);
    };
};

/// Not that there is no checkpoint, but that it cannot be looked for.
bool cannot_look(ErrorCode code) {
    return code == ErrorCode::io || code == ErrorCode::memory;
}

/// `own`: the request's directory without dots, as in the location.
Finding look_for_checkpoint(const mpi::Comm& comm, const formats::InputRequest& request,
                            const fs::path& own) {
    const io::ListedOnce once;
    Finding finding;
    finding.directory = own;
    auto failure = mpi::error_of([&] {
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
    std::sort(location.neighbours.begin(), location.neighbours.end(),
              [](const auto& a, const auto& b) { return natural_less(a.path, b.path); });
}

/// One location for all ranks: the best group's, with the shard files of all groups.
struct FoundLocation {
    Location location;
    std::vector<std::string> unlisted;  ///< as Finding::unlisted, of that group
    int home = 0;                       ///< that group's leader
    Links links = Links::stay_inside;
};

FoundLocation find_location(mpi::Comm& comm, const formats::InputRequest& request,
                            const HostGroups& hosts) {
    const fs::path own =
        mpi::collectively_get(comm, [&] { return io::without_dots(request.directory); });
    auto all = mpi::gather(
        comm, hosts.is_leader(comm.rank()) ? look_for_checkpoint(comm, request, own) : Finding{});
    std::optional<Finding> first;
    std::optional<Finding> failure;
    std::set<std::string> shard_files;
    std::map<std::string, Bytes> neighbours;
    int home = 0;
    Links links = Links::stay_inside;
    for (const int leader : hosts.leaders) {
        Finding finding = std::move(all[static_cast<std::size_t>(leader)]);
        if (!finding.location) {
            if (cannot_look(finding.failure.code())) {
                throw Error(finding.failure);
            }
            failure = failure ? failure : finding;
            continue;
        }
        if (first && finding.location->format != first->location->format) {
            throw Error(ErrorCode::mismatch,
                        "ranks " + std::to_string(home) + " and " + std::to_string(leader) +
                            " see different checkpoints: " + first->location->format + " and " +
                            finding.location->format,
                        "remove the stale copies: the nodes hold different checkpoints");
        }
        if (finding.location->warnings.contains(kLinksOutside)) {
            links = Links::lead_out;
        }
        shard_files.insert(finding.location->shard_files.begin(),
                           finding.location->shard_files.end());
        for (const formats::Neighbour& neighbour : finding.location->neighbours) {
            Bytes& bytes = neighbours[neighbour.path];
            bytes = std::max(bytes, neighbour.bytes);
        }
        if (!first || is_better(finding, *first)) {
            home = leader;
            first = std::move(finding);
        }
    }
    if (!first) {
        throw Error(failure->failure);
    }
    Location location = *std::move(first->location);
    location.shard_files.assign(shard_files.begin(), shard_files.end());
    std::sort(location.shard_files.begin(), location.shard_files.end(), natural_less);
    join_neighbours(neighbours, location);
    rebase(location, first->directory, own);
    return {std::move(location), std::move(first->unlisted), home, links};
}

void show_progress(const mpi::OnShare& on_scan, std::size_t n_begun, std::size_t n_own,
                   std::size_t n_all) {
    if (on_scan) {
        on_scan(static_cast<Index>(n_begun), static_cast<Index>(n_own), static_cast<Index>(n_all));
    }
}

/// Each file scanned by one rank that sees it, on all ranks.
std::vector<formats::Scan> share_scans(mpi::Comm& comm, const FoundCheckpoint& found,
                                       const mpi::OnShare& on_scan) {
    const formats::Format& format = formats::format_of(found.location);
    const std::vector<std::string>& files = found.files;
    const HostGroups& hosts = found.visibility.hosts();
    const std::vector<int> readers = ranks_for_all(found.sizes, hosts);
    std::vector<std::pair<std::size_t, formats::Scan>> mine;
    for (std::size_t file = 0; file < files.size(); ++file) {
        if (readers[file] == comm.rank()) {
            mine.emplace_back(file, formats::Scan());
        }
    }
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& step) {
        in_turns(mine.size(), reading_threads(hosts.n_beside(comm.rank()), mine.size()),
                 [&](std::size_t at, Turn turn) {
                     if (turn == Turn::own) {
                         step();
                         show_progress(on_scan, at, mine.size(), files.size());
                     }
                     mine[at].second = format.scan(found.location, files[mine[at].first]);
                 });
    });
    std::vector<formats::Scan> scans(files.size());
    for (auto& part : mpi::gather(comm, std::move(mine))) {
        for (auto& [file, scan] : part) {
            scans[file] = std::move(scan);
        }
    }
    return scans;
}

Catalogue scan_all(mpi::Comm& comm, const FoundCheckpoint& found, const mpi::OnShare& on_scan) {
    auto scans = share_scans(comm, found, on_scan);
    return mpi::collectively_get(
        comm, [&] { return formats::combine(found.location, std::move(scans)); });
}

/// Compares all statements with each other and drops them: they take hundreds of bytes for each
/// file.
catalogue::Provenance judge_statements(const Location& location, Catalogue& catalogue) {
    auto statements = std::exchange(catalogue.statements, {});
    std::copy(location.statements.begin(), location.statements.end(),
              std::back_inserter(statements));
    auto provenance = catalogue::judge(catalogue.files, statements);
    if (provenance.standing == catalogue::Standing::unknown) {
        catalogue.warnings["provenance_unknown"] =
            "only names tell to which rank and save each file belongs";
    }
    // An optimizer's step is held against them, which counts otherwise in some runs.
    for (const catalogue::FileAssertion& statement : location.statements) {
        for (const auto& [key, step] : statement.save) {
            if (catalogue.optimizer.step && !catalogue.facts.contains(key)) {
                catalogue.facts[formats::kStepBesides + statement.source] =
                    parse_index(step).value_or(0);
            }
        }
    }
    return provenance;
}

void resolve_all(mpi::Comm& comm, const HostGroups& hosts, const SizesByGroup& sizes,
                 const Location& location, Catalogue& catalogue) {
    const std::vector<std::uint32_t> files = formats::resolve_list(catalogue);
    if (files.empty()) {
        mpi::collectively(comm, [&] { formats::settle(catalogue, {}); });
        return;
    }
    const formats::Format& format = formats::format_of(location);
    const std::vector<int> readers = ranks_for(files, sizes, hosts);
    std::vector<std::uint32_t> mine;
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (readers[i] == comm.rank()) {
            mine.push_back(files[i]);
        }
    }
    // A format goes through the catalogue once a call, so each thread resolves its files together.
    const std::size_t n_threads = reading_threads(hosts.n_beside(comm.rank()), mine.size());
    std::vector<std::vector<std::uint32_t>> parts(n_threads);
    for (std::size_t i = 0; i < mine.size(); ++i) {
        parts[i * n_threads / mine.size()].push_back(mine[i]);
    }
    std::vector<formats::Resolution> found(parts.size());
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& step) {
        in_turns(parts.size(), n_threads, [&](std::size_t at, Turn turn) {
            found[at] = format.resolve(location, catalogue, parts[at],
                                       turn == Turn::own ? step : mpi::OnStep([] {}));
        });
    });
    std::vector<formats::Resolution> resolutions;
    for (auto& of_rank : mpi::gather(comm, std::move(found))) {
        std::move(of_rank.begin(), of_rank.end(), std::back_inserter(resolutions));
    }
    mpi::collectively(comm, [&] { formats::settle(catalogue, resolutions); });
}

/// Files that are taken for seen: those of a listing, where all ranks have one view. Opening them
/// tells more than looking at them, and what fails is looked into then.
SizesByGroup taken_for_seen(std::size_t n_files) {
    return {std::vector<Index>(n_files, 0)};
}

/// Collective. A step that opens files which nobody has looked at. Where it fails, the fault is
/// that of a file that is not there, if any is.
template <typename Step>
void opening(FileVisibility& visibility, const std::vector<std::string>& files,
             const fs::path& directory, const Step& step) {
    try {
        step();
    } catch (const Error& error) {
        if (visibility.is_one_view() && error.code() != ErrorCode::stopped) {
            check_seen(visibility.sizes_of(files), files, directory, visibility.hosts());
        }
        throw;
    }
}

/// Those of the catalogue's files that are opened by nobody, or that were looked at.
std::vector<std::string> not_opened(const Catalogue& catalogue) {
    const std::vector<std::uint32_t> later = formats::resolve_list(catalogue);
    std::vector<std::string> files;
    for (std::uint32_t file = 0; file < catalogue.files.size(); ++file) {
        if (!std::binary_search(later.begin(), later.end(), file)) {
            files.push_back(catalogue.files[file].path);
        }
    }
    return files;
}

Survey survey_files(mpi::Comm& comm, FoundCheckpoint found, const mpi::OnShare& on_scan) {
    const std::uint64_t n_before = io::read_calls();
    const io::Openings opened;
    Survey survey;
    survey.home = found.home;
    FileVisibility& visibility = found.visibility;
    const HostGroups& hosts = visibility.hosts();
    opening(visibility, found.files, found.location.directory,
            [&] { survey.catalogue = scan_all(comm, found, on_scan); });
    survey.location = std::move(found.location);
    const fs::path& directory = survey.location.directory;
    std::vector<std::string> files;
    for (const catalogue::File& file : survey.catalogue.files) {
        files.push_back(file.path);
    }
    if (visibility.is_one_view()) {
        visibility.take(files, opened);
        const std::vector<std::string> others = not_opened(survey.catalogue);
        check_seen(visibility.sizes_of(others), others, directory, hosts);
    } else {
        check_seen(visibility.sizes_of(files), files, directory, hosts);
    }
    opening(visibility, files, directory, [&] {
        // What files say of themselves comes before what is looked up in them by what they say.
        survey.provenance = mpi::collectively_get(
            comm, [&] { return judge_statements(survey.location, survey.catalogue); });
        resolve_all(
            comm, hosts,
            visibility.is_one_view() ? taken_for_seen(files.size()) : visibility.sizes_of(files),
            survey.location, survey.catalogue);
    });
    if (visibility.is_one_view()) {
        visibility.take(files, opened);
    }
    const auto sizes = visibility.sizes_of(files);
    check_seen(sizes, files, directory, hosts);
    survey.stamps = visibility.stamps(files);
    survey.n_reads = comm.all_sum(static_cast<Index>(io::read_calls() - n_before));
    if (comm.rank() == 0) {
        survey.digests = digests_of(survey.catalogue);
    }
    survey.visibility.group_of_rank = hosts.group_of_rank;
    for (const auto& group : sizes) {
        std::vector<bool>& sees = survey.visibility.group_sees.emplace_back();
        for (const Index size : group) {
            sees.push_back(size >= 0);
        }
    }
    return survey;
}

/// A step that agrees on its errors. The first rank, which says them, looks for an older save.
void telling_of_older_save(const mpi::Comm& comm, const formats::InputRequest& request,
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

/// Ranks that see the same of both stay together.
plan::Visibility seen_by_both(const plan::Visibility& a, const plan::Visibility& b) {
    plan::Visibility both;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> groups;
    for (std::size_t rank = 0; rank < a.group_of_rank.size(); ++rank) {
        const std::pair key{a.group_of_rank[rank], b.group_of_rank[rank]};
        const auto [at, is_new] =
            groups.try_emplace(key, static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            std::vector<bool> sees = a.group_sees[key.first];
            const std::vector<bool>& more = b.group_sees[key.second];
            sees.insert(sees.end(), more.begin(), more.end());
            both.group_sees.push_back(std::move(sees));
        }
        both.group_of_rank.push_back(at->second);
    }
    return both;
}

/// What counts as the checkpoint: the directory that was given, or, when the files lie beside that,
/// the one that holds both.
fs::path root_of(const fs::path& given, const fs::path& hf_directory) {
    const bool is_below = io::is_within(hf_directory, io::without_dots(given));
    return is_below ? given : hf_directory.parent_path();
}

/// Opens the file so, and no other one that is put in its place or on the way to it meanwhile.
/// Local. Errors also as io::open_within.
io::InputFile open_own(const fs::path& file, const fs::path& root) {
    require_own(file, root);
    return io::open_within(file, root);
}

class Turns {
  public:
    Turns(std::size_t n, const std::function<void(std::size_t, Turn)>& work) : n_(n), work_(work) {}

    /// Any thread: until nothing is left or something has failed.
    void take(Turn turn) {
        const formats::PickleMemory memory;
        for (std::size_t at = next_++; at < n_ && !has_failed_; at = next_++) {
            if (auto failure = mpi::error_of([&] { work_(at, turn); })) {
                note(at, std::move(*failure));
            }
        }
    }

    /// Once no thread takes turns any more.
    void rethrow() {
        if (failure_) {
            throw Error(std::move(failure_->second));
        }
    }

  private:
    /// All before the first that fails were begun, and so are done, in every run.
    void note(std::size_t at, Error failure) {
        const std::lock_guard lock(mutex_);
        has_failed_ = true;
        if (!failure_ || at < failure_->first) {
            failure_.emplace(at, std::move(failure));
        }
    }

    std::size_t n_;
    const std::function<void(std::size_t, Turn)>& work_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;
    std::optional<std::pair<std::size_t, Error>> failure_;
};

}  // namespace

std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue) {
    std::vector<FileSays> files(catalogue.files.size());
    catalogue::each_tensor(catalogue, [&](const catalogue::Tensor& tensor) {
        const std::uint64_t hash = hash_of(tensor);
        for (const catalogue::Piece& piece : tensor.pieces) {
            files.at(piece.file).add(hash, piece);
        }
    });
    catalogue::each_shard(catalogue, [&](const catalogue::Shard& shard) {
        files.at(shard.piece.file).add(hash_of(shard), shard.piece);
    });
    std::vector<InputDigest> digests;
    digests.reserve(files.size());
    for (const FileSays& file : files) {
        digests.push_back({file.print.value(), file.has_all_checksums});
    }
    return digests;
}

void FoundCheckpoint::leave_to(mpi::Comm& leaders) {
    home = static_cast<int>(visibility.hosts().group_of_rank[static_cast<std::size_t>(home)]);
    visibility.leave_to(leaders);
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

FoundCheckpoint find_checkpoint(mpi::Comm& comm, const formats::InputRequest& asked) {
    formats::InputRequest request = asked;
    request.directory =
        mpi::collectively_get(comm, [&] { return formats::named_directory(request.directory); });
    HostGroups hosts = host_groups(comm, request.directory, Links::stay_inside);
    FoundLocation at = find_location(comm, request, hosts);
    if (at.links == Links::lead_out) {
        hosts = host_groups(comm, request.directory, at.links);
        at = find_location(comm, request, hosts);
    }
    Location& location = at.location;
    const int home = at.home;
    FileVisibility visibility(comm, std::move(hosts), location.directory);
    const formats::Format& format = formats::format_of(location);
    auto files = mpi::share(comm, home, [&] { return format.scan_list(location); });
    // What a listing has named will be opened: that tells more than a look.
    const std::vector<std::string>& doubted = visibility.is_one_view() ? at.unlisted : files;
    const SizesByGroup found = visibility.sizes_of(doubted);
    telling_of_older_save(comm, request, location.directory, [&] {
        check_seen(found, doubted, location.directory, visibility.hosts());
    });
    SizesByGroup sizes = visibility.is_one_view() ? taken_for_seen(files.size()) : found;
    mpi::collectively(comm, [&] {
        if (comm.rank() == home) {
            require_no_holes(location.directory);
        }
    });
    return {asked.directory,       std::move(location), home,
            std::move(visibility), std::move(files),    std::move(sizes)};
}

Survey survey(mpi::Comm& comm, FoundCheckpoint found, const mpi::OnShare& on_scan) {
    formats::InputRequest request;
    request.directory = found.location.directory;
    request.backend = formats::format_of(found.location).backend;
    Survey survey;
    const fs::path given = found.given;
    telling_of_older_save(comm, request, request.directory,
                          [&] { survey = survey_files(comm, std::move(found), on_scan); });
    survey.given = given;
    return survey;
}

void put_files_behind(Survey& first, Survey& more) {
    std::vector<catalogue::File>& files = first.catalogue.files;
    const auto n_before = static_cast<std::uint32_t>(files.size());
    for (const catalogue::File& file : more.catalogue.files) {
        files.push_back({(fs::absolute(more.location.directory) / file.path).string(), file.size});
    }
    more.catalogue.files = files;
    for (catalogue::Tensor& tensor : more.catalogue.tensors) {
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.file += n_before;
        }
    }
    for (catalogue::Shard& shard : more.catalogue.shards) {
        shard.piece.file += n_before;
    }
    first.visibility = seen_by_both(first.visibility, more.visibility);
    first.digests.insert(first.digests.end(), more.digests.begin(), more.digests.end());
    first.stamps.insert(first.stamps.end(), more.stamps.begin(), more.stamps.end());
    first.n_reads += more.n_reads;
}

void require_own(const fs::path& file, const fs::path& root) {
    if (const auto end = io::leads_out_of(file, root)) {
        throw Error(ErrorCode::corrupt,
                    printable(file.string(), 1000) +
                        " leads through a link out of the checkpoint, to " +
                        printable(end->string(), 1000),
                    "put the file itself there, or name the model's directory with --hf_config");
    }
}

publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given) {
    return [root = root_of(given, hf_directory)](const fs::path& file) {
        return open_own(file, root);
    };
}

std::size_t reading_threads(Index ranks_on_node, std::size_t n_files) {
    constexpr Index kOfNode = 32;
    constexpr Index kOfRank = 32;
    constexpr std::size_t kFilesOfThread = 8;
    const Index most = std::clamp(kOfNode / std::max(ranks_on_node, Index{1}), Index{1}, kOfRank);
    return std::min(static_cast<std::size_t>(most), 1 + n_files / kFilesOfThread);
}

void in_turns(std::size_t n, std::size_t n_threads,
              const std::function<void(std::size_t, Turn)>& work) {
    Turns turns(n, work);
    std::vector<std::future<void>> others;
    try {
        while (others.size() + 1 < std::min(n, n_threads)) {
            others.push_back(std::async(std::launch::async, [&] { turns.take(Turn::other); }));
        }
    } catch (const std::system_error&) {
        // No memory for one more stack: those that run take all.
    }
    turns.take(Turn::own);
    for (std::future<void>& other : others) {
        other.get();
    }
    turns.rethrow();
}

}  // namespace shardweld::app
