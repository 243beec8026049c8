#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "io/input_file.hpp"
#include "io/openings.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "checkpoint.hpp"
#include "in_turns.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using formats::Location;

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

void add_piece(const catalogue::Piece& piece, Fingerprint& print) {
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
}

void show_progress(const mpi::OnShare& on_scan, std::size_t n_begun, std::size_t n_own,
                   std::size_t n_all) {
    if (on_scan) {
        on_scan(static_cast<Index>(n_begun), static_cast<Index>(n_own), static_cast<Index>(n_all));
    }
}

/// Each file scanned by one rank that sees it, on all ranks.
std::vector<formats::Scan> share_scans(mpi::Comm& comm, const Checkpoint& found,
                                       const mpi::OnShare& on_scan) {
    const formats::Format& format = formats::format_of(found.location);
    const std::vector<std::string>& files = found.files;
    const HostGroups& hosts = found.visibility.hosts();
    const std::vector<int> readers = ranks_for_all(found.sizes, hosts);
    std::vector<std::pair<std::size_t, formats::Scan>> mine;
    for (const std::size_t file : indices(files)) {
        if (readers[file] == comm.rank()) {
            mine.emplace_back(file, formats::Scan());
        }
    }
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& step) {
        in_turns(mine.size(), reading_threads(hosts.n_beside(comm.rank()), mine.size()),
                 [&](std::size_t at, bool is_callers) {
                     if (is_callers) {
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

Catalogue scan_all(mpi::Comm& comm, const Checkpoint& found, const mpi::OnShare& on_scan) {
    auto scans = share_scans(comm, found, on_scan);
    return mpi::collectively_get(
        comm, [&] { return formats::combine(found.location, std::move(scans)); });
}

/// Compares all statements with each other and drops them: they take hundreds of bytes for each
/// file.
catalogue::Provenance judge_statements(const Location& location, Catalogue& catalogue) {
    auto statements = std::exchange(catalogue.statements, {});
    append_all(statements, location.statements);
    auto provenance = catalogue::compare_statements(catalogue.files, statements);
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
        mpi::collectively(comm, [&] { formats::apply_resolutions(catalogue, {}); });
        return;
    }
    const formats::Format& format = formats::format_of(location);
    const std::vector<int> readers = ranks_for(files, sizes, hosts);
    std::vector<std::uint32_t> mine;
    for (const std::size_t i : indices(files)) {
        if (readers[i] == comm.rank()) {
            mine.push_back(files[i]);
        }
    }
    // A format goes through the catalogue once a call, so each thread resolves its files together.
    const std::size_t n_threads = reading_threads(hosts.n_beside(comm.rank()), mine.size());
    std::vector<std::vector<std::uint32_t>> parts(n_threads);
    for (const std::size_t i : indices(mine)) {
        parts[i * n_threads / mine.size()].push_back(mine[i]);
    }
    std::vector<formats::Resolution> found(parts.size());
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& step) {
        in_turns(parts.size(), n_threads, [&](std::size_t at, bool is_callers) {
            found[at] = format.resolve(location, catalogue, parts[at],
                                       is_callers ? step : mpi::OnStep([] {}));
        });
    });
    std::vector<formats::Resolution> resolutions;
    for (auto& of_rank : mpi::gather(comm, std::move(found))) {
        append_all(resolutions, std::move(of_rank));
    }
    mpi::collectively(comm, [&] { formats::apply_resolutions(catalogue, resolutions); });
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
        if (!std::ranges::binary_search(later, file)) {
            files.push_back(catalogue.files[file].path);
        }
    }
    return files;
}

void read_files(mpi::Comm& comm, Checkpoint& read, const mpi::OnShare& on_scan) {
    const std::uint64_t n_before = io::read_calls();
    const io::Openings opened;
    FileVisibility& visibility = read.visibility;
    const HostGroups& hosts = visibility.hosts();
    const fs::path& directory = read.location.directory;
    opening(visibility, read.files, directory,
            [&] { read.catalogue = scan_all(comm, read, on_scan); });
    std::vector<std::string> files = collect_list(read.catalogue.files, &catalogue::File::path);
    if (visibility.is_one_view()) {
        visibility.add_stamps(files, opened);
        const std::vector<std::string> others = not_opened(read.catalogue);
        check_seen(visibility.sizes_of(others), others, directory, hosts);
    } else {
        check_seen(visibility.sizes_of(files), files, directory, hosts);
    }
    opening(visibility, files, directory, [&] {
        // What files say of themselves comes before what is looked up in them by what they say.
        read.provenance = mpi::collectively_get(
            comm, [&] { return judge_statements(read.location, read.catalogue); });
        resolve_all(comm, hosts,
                    visibility.is_one_view() ? SizesByGroup{std::vector<Index>(files.size(), 0)}
                                             : visibility.sizes_of(files),
                    read.location, read.catalogue);
    });
    if (visibility.is_one_view()) {
        visibility.add_stamps(files, opened);
    }
    const auto sizes = visibility.sizes_of(files);
    check_seen(sizes, files, directory, hosts);
    read.stamps = visibility.stamps(files);
    read.n_reads = comm.all_sum(static_cast<Index>(io::read_calls() - n_before));
    if (comm.rank() == 0) {
        read.digests = digests_of(read.catalogue);
    }
    read.seen.group_of_rank = hosts.group_of_rank;
    for (const auto& group : sizes) {
        std::vector<bool>& sees = read.seen.group_sees.emplace_back();
        for (const Index size : group) {
            sees.push_back(size >= 0);
        }
    }
}

/// Ranks that see the same of both stay together.
plan::Visibility seen_by_both(const plan::Visibility& a, const plan::Visibility& b) {
    plan::Visibility both;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> groups;
    for (const std::size_t rank : indices(a.group_of_rank)) {
        const std::pair key{a.group_of_rank[rank], b.group_of_rank[rank]};
        const auto [at, is_new] =
            groups.try_emplace(key, static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            std::vector<bool> sees = a.group_sees[key.first];
            const std::vector<bool>& more = b.group_sees[key.second];
            append_all(sees, more);
            both.group_sees.push_back(std::move(sees));
        }
        both.group_of_rank.push_back(at->second);
    }
    return both;
}

}  // namespace

std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue) {
    std::vector<Fingerprint> prints(catalogue.files.size());
    std::vector<InputDigest> digests(catalogue.files.size());
    const auto add = [&](std::uint64_t tensor, const catalogue::Piece& piece) {
        Fingerprint& print = prints.at(piece.file);
        print.add(tensor);
        add_piece(piece, print);
        digests[piece.file].has_all_checksums &= piece.crc32 != 0;
    };
    catalogue::each_tensor(catalogue, [&](const catalogue::Tensor& tensor) {
        const std::uint64_t hash = hash_of(tensor);
        for (const catalogue::Piece& piece : tensor.pieces) {
            add(hash, piece);
        }
    });
    catalogue::each_shard(catalogue,
                          [&](const catalogue::Shard& shard) { add(hash_of(shard), shard.piece); });
    for (const std::size_t file : indices(prints)) {
        digests[file].value = prints[file].value();
    }
    return digests;
}

void read_checkpoint(mpi::Comm& comm, Checkpoint& found, const mpi::OnShare& on_scan) {
    formats::JobInput request;
    request.directory = found.location.directory;
    request.backend = formats::format_of(found.location).backend;
    telling_of_older_save(comm, request, request.directory,
                          [&] { read_files(comm, found, on_scan); });
    found.visibility = {};
    found.files = {};
    found.sizes = {};
}

void put_files_behind(Checkpoint& first, Checkpoint& more) {
    std::vector<catalogue::File>& files = first.catalogue.files;
    more.first_file = static_cast<std::uint32_t>(files.size());
    for (const catalogue::File& file : more.catalogue.files) {
        files.push_back({(fs::absolute(more.location.directory) / file.path).string(), file.size});
    }
    more.catalogue.files = files;
    for (catalogue::Tensor& tensor : more.catalogue.tensors) {
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.file += more.first_file;
        }
    }
    for (catalogue::Shard& shard : more.catalogue.shards) {
        shard.piece.file += more.first_file;
    }
    first.seen = seen_by_both(first.seen, more.seen);
    append_all(first.digests, more.digests);
    append_all(first.stamps, more.stamps);
    first.n_reads += more.n_reads;
}

}  // namespace shardweld::app
