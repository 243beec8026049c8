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

void create_safetensors(const outputs::OutputFile& file, const fs::path& directory, bool sync) {
    const fs::path path = directory / file.name;
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
/// ranks, and who writes the header is among those that fsync the file.
void create_own(int rank, const plan::Plan& plan, const fs::path& directory, bool sync,
                const mpi::Step& before_file) {
    Bytes begin = 0;
    for (const outputs::OutputFile& file : plan.placement.files) {
        const auto after = std::upper_bound(plan.cuts.begin(), plan.cuts.end(), begin);
        const int owner = std::min(static_cast<int>(after - plan.cuts.begin()), plan.n_ranks()) - 1;
        if (owner == rank) {
            before_file();
            create_safetensors(file, directory, sync);
        }
        for (const std::uint32_t tensor : file.tensors) {
            begin += plan.targets[tensor].bytes();
        }
    }
}

/// What the library made becomes full-sized and gets its config.
void complete_hdf5(const outputs::OutputFile& file, const fs::path& directory) {
    io::OutputFile out = io::OutputFile::open_existing(directory / file.name);
    out.reserve(file.size);
    out.write_at(file.header_offset, std::as_bytes(std::span(file.header)));
    out.close();
}

/// Makes HDF5 files: by all ranks together where that works, else by the first alone.
class Hdf5Creator {
  public:
    Hdf5Creator(mpi::Comm& comm, plan::Plan& plan, const fs::path& directory)
        : comm_(comm),
          placement_(plan.placement),
          tensors_(plan::output_tensors(plan.targets)),
          directory_(directory),
          module_(mpi::collectively_get(comm, [] { return Hdf5Module::load(); })),
          is_together_(comm.size() > 1 && module_.is_parallel()) {}

    void create(std::size_t at) {
        try {
            make(at);
        } catch (const Error& error) {
            if (!is_together_) {
                throw;
            }
            make_alone(at, error);
        }
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == 0) {
                complete_hdf5(placement_.files[at], directory_);
            }
        });
    }

    [[nodiscard]] std::vector<std::string> take_notes() { return std::move(notes_); }

  private:
    void make_alone(std::size_t at, const Error& error) {
        is_together_ = false;
        notes_.push_back(
            "the file system does not let ranks create HDF5 files together: the first rank does "
            "it alone (" +
            error.full_text() + ")");
        mpi::collectively(comm_, [&] {
            std::error_code ignored;
            if (comm_.rank() == 0) {
                fs::remove(directory_ / placement_.files[at].name, ignored);
            }
        });
        make(at);
    }

    /// The first rank's offsets become everybody's.
    void make(std::size_t at) {
        const outputs::OutputFile& file = placement_.files[at];
        const fs::path path = directory_ / file.name;
        outputs::RawOffsets raw;
        mpi::collectively(comm_, [&] {
            if (is_together_ || comm_.rank() == 0) {
                raw = module_.create(path, file, tensors_, is_together_);
            }
        });
        ByteWriter out;
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == 0) {
                out.put(raw.header);
                out.put(io::InputFile::open(path).size());
                out.put_all<Bytes>(raw.tensors);
            }
        });
        const auto shared = comm_.broadcast(out.take(), 0);
        ByteReader in(shared);
        raw.header = in.get<Bytes>();
        raw.file_size = in.get<Bytes>();
        raw.tensors = in.get_all<Bytes>();
        outputs::settle(placement_, at, tensors_, raw);
    }

    mpi::Comm& comm_;
    outputs::Placement& placement_;
    std::vector<outputs::OutputTensor> tensors_;
    fs::path directory_;
    Hdf5Module module_;
    bool is_together_;
    std::vector<std::string> notes_;
};

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
    plan.placement.is_settled = true;
}

}  // namespace

std::vector<std::string> create_files(mpi::Comm& comm, plan::Plan& plan, const fs::path& directory,
                                      const std::vector<outputs::RawOffsets>& raw, bool sync) {
    outputs::Placement& placement = plan.placement;
    if (placement.format == outputs::OutputFormat::safetensors) {
        mpi::collectively_in_steps(comm, [&](const mpi::Step& step) {
            create_own(comm.rank(), plan, directory, sync, step);
        });
        return {};
    }
    if (!raw.empty()) {
        mpi::collectively(comm, [&] { take_over_hdf5(plan, directory, raw); });
        return {};
    }
    std::vector<std::string> notes;
    {
        Hdf5Creator creator(comm, plan, directory);
        for (std::size_t at = 0; at < placement.files.size(); ++at) {
            creator.create(at);
        }
        notes = creator.take_notes();
    }
    placement.is_settled = true;
    return_freed_memory();
    return notes;
}

}  // namespace shardweld::execute
