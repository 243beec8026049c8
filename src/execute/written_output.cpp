#include "written_output.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "mpi/free_run.hpp"
#include "plan/plan.hpp"

#include "round.hpp"

namespace shardweld::execute {

namespace {

struct StretchInFile {
    std::uint32_t file = 0;
    io::WrittenStretch stretch;
};

/// Where in the files this rank's blocks lie, in order.
std::vector<StretchInFile> pieces_of(const plan::Plan& plan, const Written& written) {
    std::vector<StretchInFile> pieces;
    pieces.reserve(written.blocks.size() + written.edges.size());
    const auto add = [&](const plan::Slice& slice, const Digest& digest) {
        pieces.push_back({plan.placement.slots[slice.tensor].file,
                          {file_offset_of(plan, slice), plan.bytes_of(slice), digest}});
    };
    const BlockPlaces places(plan);
    for (const DoneBlock& block : written.blocks) {
        add(places.slice(block), block.digest);
    }
    for (const BlockPart& edge : written.edges) {
        add({edge.tensor, edge.begin, edge.end, 0}, edge.digest);
    }
    std::ranges::sort(pieces, {}, [](const StretchInFile& piece) {
        return std::pair(piece.file, piece.stretch.offset);
    });
    return pieces;
}

/// What reading everything back takes.
Index bytes_of(const CreatedFiles& created, const std::vector<StretchInFile>& pieces) {
    Bytes bytes = 0;
    for (const io::WrittenFile& frame : created.frames) {
        for (const io::WrittenStretch& stretch : frame.stretches) {
            bytes += stretch.size;
        }
    }
    for (const StretchInFile& piece : pieces) {
        bytes += piece.stretch.size;
    }
    return static_cast<Index>(bytes);
}

std::string tensor_at(const plan::Plan& plan, std::uint32_t file, Bytes offset) {
    for (const std::uint32_t tensor : plan.placement.files[file].tensors) {
        const Bytes begin = plan.placement.slots[tensor].offset;
        if (begin <= offset && offset < begin + plan.tensor(tensor).bytes()) {
            return plan.tensor(tensor).name;
        }
    }
    return "no tensor";
}

}  // namespace

void check_written(mpi::Comm& comm, const plan::Plan& plan, const io::Directory& directory,
                   const CreatedFiles& created, const Written& written, const CheckManner& how) {
    const auto pieces = pieces_of(plan, written);
    const Index own = how.all ? bytes_of(created, pieces) : 0;
    const Index total = comm.all_sum(own);
    mpi::run_freely(comm, how.why_stop, [&](const mpi::OnStep& step) {
        directory.require_same();
        Index done = 0;
        const auto before_read = [&](Bytes bytes) {
            step();
            if (how.on_read && how.all) {
                how.on_read(done, own, total);
            }
            done += static_cast<Index>(bytes);
            if (how.throttle && how.all) {
                how.throttle->wait_for(bytes);
            }
        };
        for (const io::WrittenFile& frame : created.frames) {
            io::require_as_written(directory, frame, {true, how.all, before_read});
        }
        for (auto begin = pieces.begin(); begin != pieces.end();) {
            const auto end = std::find_if(begin, pieces.end(), [&](const StretchInFile& piece) {
                return piece.file != begin->file;
            });
            std::vector<io::WrittenStretch> stretches;
            std::transform(begin, end, std::back_inserter(stretches),
                           [](const StretchInFile& piece) { return piece.stretch; });
            const std::string& name = plan.placement.files[begin->file].name;
            const auto changed = io::first_changed(directory, name, created.files[begin->file],
                                                   stretches, {how.all, how.all, before_read});
            if (changed) {
                io::throw_changed(directory.path() / name,
                                  "holds other bytes at offset " + std::to_string(changed->offset) +
                                      ", in " +
                                      printable(tensor_at(plan, begin->file, changed->offset)) +
                                      ", than were written there");
            }
            begin = end;
        }
    });
}

}  // namespace shardweld::execute
