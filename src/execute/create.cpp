// Creates the output files, in the way their format asks for.
// Knows placements; writes headers, no tensor bytes.
#include <algorithm>
#include <system_error>

#include "shardweld/core/codec.hpp"
#include "shardweld/core/usage.hpp"
#include "shardweld/execute/run.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/mpi/free_run.hpp"

#include "hdf5_module.hpp"

namespace shardweld::execute {

namespace {

void create_safetensors(const outputs::OutputFile& file, const io::Directory& directory,
                        bool sync) {
    const fs::path path = directory.path() / file.name;
    directory.require_same();
    std::error_code failed;
    if (fs::path(file.name).has_parent_path()) {
        fs::create_directories(path.parent_path(), failed);
    }
    if (failed) {
        io::throw_errno(failed.value(), "create directory", path.parent_path());
    }
    // A run that is resumed goes on in the files of the one before.
    const auto is_whole = [&] {
        return fs::is_regular_file(fs::symlink_status(path, failed)) &&
               fs::file_size(path, failed) == file.size && !failed;
    };
    const bool is_kept = is_whole();
    if (!is_kept) {
        fs::remove(path, failed);
    }
    io::OutputFile out =
        is_kept ? io::OutputFile::open_existing(path) : io::OutputFile::create(path);
    directory.require_same();
    out.resize(file.size);
    out.reserve(file.size);
    out.write_at(0, std::as_bytes(std::span(file.header)));
    // Perhaps nothing is left to be written to it.
    if (is_kept && sync) {
        out.sync();
    }
    out.close();
}

/// Every file is made by the rank that owns its first tensor byte: many files are made by many
/// ranks, and who writes the header is among those that fsync the file. Indices of the files.
std::vector<std::size_t> own_files(int rank, const plan::Plan& plan) {
    std::vector<std::size_t> own;
    Bytes begin = 0;
    for (std::size_t at = 0; at < plan.placement.files.size(); ++at) {
        const auto after = std::upper_bound(plan.cuts.begin(), plan.cuts.end(), begin);
        const int owner = std::min(static_cast<int>(after - plan.cuts.begin()), plan.n_ranks()) - 1;
        if (owner == rank) {
            own.push_back(at);
        }
        for (const std::uint32_t tensor : plan.placement.files[at].tensors) {
            begin += plan.targets[tensor].bytes();
        }
    }
    return own;
}

/// The library makes the file's structure in memory, and we write it: its errors are then those of
/// any other file.
outputs::RawOffsets create_hdf5(const Hdf5Module& module, outputs::Placement& placement,
                                std::size_t at, const std::vector<outputs::OutputTensor>& tensors,
                                const io::Directory& directory, bool sync) {
    const outputs::OutputFile& file = placement.files[at];
    const auto structure = module.make(file, tensors);
    const auto* const offsets = structure->offsets;
    const outputs::RawOffsets raw{{offsets, offsets + file.tensors.size()},
                                  offsets[file.tensors.size()],
                                  structure->file_bytes};
    outputs::settle(placement, at, tensors, raw);
    directory.require_same();
    io::OutputFile out = io::OutputFile::create(directory.path() / file.name);
    directory.require_same();
    out.resize(file.size);
    out.reserve(file.size);
    for (const shardweld_hdf5_part& part : std::span(structure->parts, structure->n_parts)) {
        out.write_at(part.offset, {static_cast<const std::byte*>(part.bytes), part.size});
    }
    out.write_at(file.header_offset, std::as_bytes(std::span(file.header)));
    // A run that resumes takes the structure as it is.
    if (sync) {
        out.sync();
    }
    out.close();
    return raw;
}

/// All ranks learn where the library put tensors.
void create_all_hdf5(mpi::Comm& comm, plan::Plan& plan, const io::Directory& directory, bool sync) {
    const auto tensors = plan::output_tensors(plan.targets);
    ByteWriter out;
    mpi::collectively_in_steps(comm, [&](const mpi::Step& before_file) {
        const Hdf5Module module = Hdf5Module::load();
        for (const std::size_t at : own_files(comm.rank(), plan)) {
            before_file();
            const outputs::RawOffsets raw =
                create_hdf5(module, plan.placement, at, tensors, directory, sync);
            out.put<Bytes>(at);
            out.put_all<Bytes>(raw.tensors);
            out.put(raw.header);
            out.put(raw.file_size);
        }
    });
    for (const auto& bytes : comm.all_gather(out.take())) {
        ByteReader in(bytes);
        while (!in.at_end()) {
            const auto at = in.get<Bytes>();
            outputs::RawOffsets raw;
            raw.tensors = in.get_all<Bytes>();
            raw.header = in.get<Bytes>();
            raw.file_size = in.get<Bytes>();
            outputs::settle(plan.placement, at, tensors, raw);
        }
    }
    return_freed_memory();
}

/// Files that an earlier run has made.
void take_over_hdf5(plan::Plan& plan, const fs::path& directory,
                    const std::vector<outputs::RawOffsets>& raw) {
    const auto tensors = plan::output_tensors(plan.targets);
    for (std::size_t at = 0; at < plan.placement.files.size(); ++at) {
        const outputs::OutputFile& file = plan.placement.files[at];
        const fs::path path = directory / file.name;
        std::error_code failed;
        if (at >= raw.size() || raw[at].tensors.size() != file.tensors.size() ||
            !fs::is_regular_file(fs::symlink_status(path, failed)) ||
            fs::file_size(path, failed) != raw[at].file_size) {
            throw Error(ErrorCode::target, "cannot resume: " + path.string() +
                                               " is not the file that the merge began to write; "
                                               "run without --resume to start anew");
        }
        outputs::settle(plan.placement, at, tensors, raw[at]);
    }
}

void sync_files(const std::vector<std::size_t>& files, const outputs::Placement& placement,
                const fs::path& directory) {
    for (const std::size_t at : files) {
        io::OutputFile file = io::OutputFile::open_existing(directory / placement.files[at].name);
        file.sync();
        file.close();
    }
}

}  // namespace

void create_files(mpi::Comm& comm, plan::Plan& plan, const io::Directory& directory,
                  const std::vector<outputs::RawOffsets>& raw, bool sync) {
    if (plan.placement.format == outputs::OutputFormat::safetensors) {
        mpi::collectively_in_steps(comm, [&](const mpi::Step& before_file) {
            for (const std::size_t at : own_files(comm.rank(), plan)) {
                before_file();
                create_safetensors(plan.placement.files[at], directory, sync);
            }
        });
        return;
    }
    if (raw.empty()) {
        create_all_hdf5(comm, plan, directory, sync);
    } else {
        mpi::collectively(comm, [&] {
            take_over_hdf5(plan, directory.path(), raw);
            if (sync) {
                sync_files(own_files(comm.rank(), plan), plan.placement, directory.path());
            }
        });
    }
    plan.placement.is_settled = true;
}

}  // namespace shardweld::execute
