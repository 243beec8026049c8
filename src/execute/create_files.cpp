// Creates the output files: headers and frames at their full size.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <sys/stat.h>

#include "core/process/system.hpp"
#include "io/output_file.hpp"
#include "io/written.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/plan.hpp"

#include "run.hpp"

namespace shardweld::execute {

namespace {

/// The file at its full size: the one that an earlier run made, with its tensors' bytes, or a new
/// one. And whether an earlier run made it: then perhaps nothing is left to be written to it.
std::pair<io::NotedFile, bool> make(const outputs::PlacedFile& file,
                                    const io::Directory& directory) {
    directory.require_same();
    const fs::path name = file.name;
    io::make_below(directory, name.parent_path());
    const auto found = io::identity_at(directory, name);
    const bool is_kept = found && S_ISREG(found->mode) && found->size == file.size;
    if (found && !is_kept) {
        io::remove_below(directory, name);
    }
    auto out = is_kept ? io::OutputFile::open_existing(directory, name)
                       : io::OutputFile::create(directory, name);
    out.resize(file.size);
    out.reserve(file.size);
    return {io::NotedFile(std::move(out), name), is_kept};
}

/// Every file is made by the rank that owns its first tensor byte: many files are made by many
/// ranks, and who writes the header is among those that fsync the file. Indices of the files.
std::vector<std::size_t> own_files(int rank, const plan::Plan& plan) {
    std::vector<std::size_t> own;
    Bytes begin = 0;
    for (const std::size_t at : indices(plan.placement.files)) {
        const auto after = std::ranges::upper_bound(plan.cuts, begin);
        const int owner = std::min(static_cast<int>(after - plan.cuts.begin()), plan.n_ranks()) - 1;
        if (owner == rank) {
            own.push_back(at);
        }
        for (const std::uint32_t tensor : plan.placement.files[at].tensors) {
            begin += plan.tensor(tensor).bytes();
        }
    }
    return own;
}

/// The ranges of a file's tensors and header, united.
std::vector<plan::OutputRange> raw_ranges(const plan::Plan& plan, std::size_t at) {
    const outputs::PlacedFile& file = plan.placement.files[at];
    std::vector<plan::OutputRange> ranges = {
        {file.header_offset, file.header_offset + file.header.size()}};
    for (const std::uint32_t tensor : file.tensors) {
        const Bytes begin = plan.placement.slots[tensor].offset;
        ranges.push_back({begin, begin + plan.tensor(tensor).bytes()});
    }
    return plan::united(std::move(ranges));
}

/// `raw`: the ranges of the file that the frame leaves alone.
io::WrittenFile create(const outputs::Frame& frame, const outputs::PlacedFile& file,
                       const std::vector<plan::OutputRange>& raw, const io::Directory& directory,
                       bool sync) {
    auto [made, is_kept] = make(file, directory);
    for (const outputs::FileBytes& part : frame.parts) {
        // What an earlier run has written of the tensors stays.
        for (const plan::OutputRange& own :
             plan::without({part.offset, part.offset + part.bytes.size()}, raw)) {
            made.write(own.begin, part.bytes.subspan(own.begin - part.offset, own.end - own.begin));
        }
    }
    made.write(file.header_offset, std::as_bytes(std::span(file.header)));
    return made.finish(sync && is_kept);
}

/// A file as its maker has settled it.
struct Settled {
    std::size_t file = 0;  ///< in Placement::files
    Bytes size = 0;
    Bytes header_offset = 0;
    std::vector<Bytes> offsets = {};  ///< of its tensors
};

/// All ranks learn what the makers of files have settled.
void share_places(mpi::Comm& comm, outputs::Placement& placement,
                  const std::vector<std::size_t>& own) {
    std::vector<Settled> mine;
    for (const std::size_t at : own) {
        const outputs::PlacedFile& file = placement.files[at];
        mine.push_back({at, file.size, file.header_offset, {}});
        for (const std::uint32_t tensor : file.tensors) {
            mine.back().offsets.push_back(placement.slots[tensor].offset);
        }
    }
    for (const Settled& one : mpi::gather_all(comm, mine)) {
        outputs::PlacedFile& file = placement.files.at(one.file);
        file.size = one.size;
        file.header_offset = one.header_offset;
        for (const std::size_t i : indices(file.tensors)) {
            placement.slots[file.tensors[i]].offset = one.offsets.at(i);
        }
    }
    placement.is_settled = true;
}

std::vector<io::WrittenFile> create_own(mpi::Comm& comm, plan::Plan& plan,
                                        const io::Directory& directory, bool sync) {
    const auto own = own_files(comm.rank(), plan);
    std::vector<io::WrittenFile> made;
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& before_file) {
        const outputs::OutputFormat& format = *plan.placement.format;
        // A frame that states checksums is written when they are known (WrittenSums::write_frames).
        const outputs::Framer framer =
            format.states_checksums() ? outputs::Framer() : format.framer();
        const auto tensors =
            framer && !own.empty() ? plan::output_tensors(plan.targets) : outputs::OutputTensors();
        for (const std::size_t at : own) {
            before_file();
            const outputs::Frame frame =
                framer ? framer(plan.placement, at, tensors) : outputs::Frame();
            made.push_back(
                create(frame, plan.placement.files[at], raw_ranges(plan, at), directory, sync));
        }
    });
    if (!plan.placement.is_settled) {
        share_places(comm, plan.placement, own);
    }
    return_freed_memory();  // lists of all tensors are large
    return made;
}

/// What each file is, told by who made it. Hosts number the files of a file system alike if they
/// number a directory alike; elsewhere numbers say nothing.
void share_identities(mpi::Comm& comm, const plan::Plan& plan, const io::Directory& directory,
                      CreatedFiles& created) {
    const auto own = own_files(comm.rank(), plan);
    std::map<std::size_t, io::Identity> mine;
    for (const std::size_t i : indices(own)) {
        mine[own[i]] = created.frames[i].identity;
    }
    created.files.resize(plan.placement.files.size());
    std::set<std::uint64_t> directories;
    const auto own_inode = mpi::collectively_get(
        comm, [&] { return io::identity_of(directory.fd(), directory.path()).inode; });
    for (const auto& [inode, files] : mpi::gather(comm, std::pair(own_inode, mine))) {
        directories.insert(inode);
        for (const auto& [at, identity] : files) {
            created.files[at] = identity;
        }
    }
    created.has_numbers = directories.size() == 1;
    for (io::Identity& one : created.files) {
        one.inode = created.has_numbers ? one.inode : 0;
    }
}

}  // namespace

CreatedFiles create_files(mpi::Comm& comm, plan::Plan& plan, const io::Directory& directory,
                          bool sync) {
    CreatedFiles created;
    created.frames = create_own(comm, plan, directory, sync);
    share_identities(comm, plan, directory, created);
    return created;
}

}  // namespace shardweld::execute
