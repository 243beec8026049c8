#include "stated_sums.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/crc32.hpp"
#include "io/output_file.hpp"
#include "io/written.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

namespace {

/// The parts of a frame, with checksums where it has places for them.
std::vector<std::pair<Bytes, std::vector<std::byte>>> stated_parts(
    const outputs::Frame& frame, const std::vector<std::uint32_t>& sums) {
    std::vector<std::pair<Bytes, std::vector<std::byte>>> parts;
    for (const outputs::FileBytes& part : frame.parts) {
        parts.emplace_back(part.offset,
                           std::vector<std::byte>(part.bytes.begin(), part.bytes.end()));
    }
    const auto begins_behind = [](Bytes offset, const auto& part) { return offset < part.first; };
    for (const outputs::ChecksumPlace& place : frame.checksums) {
        auto& [begin, bytes] =
            *std::prev(std::upper_bound(parts.begin(), parts.end(), place.offset, begins_behind));
        for (unsigned i = 0; i < sizeof(std::uint32_t); ++i) {
            bytes.at(place.offset - begin + i) =
                static_cast<std::byte>(sums.at(place.tensor) >> (8 * i) & 0xFFU);
        }
    }
    return parts;
}

}  // namespace

void WrittenSums::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    const plan::WrittenTensor& tensor = plan_.tensor(slice.tensor);
    const auto n_behind = static_cast<Bytes>(tensor.volume() - slice.end) * size_of(tensor.dtype);
    sums_[slice.tensor] ^= crc32_moved(crc32(bytes), n_behind);
}

std::vector<std::uint32_t> WrittenSums::gather(mpi::Comm& comm) const {
    std::vector<std::uint32_t> all(plan_.tensors.size());
    const std::vector<std::pair<std::uint32_t, std::uint32_t>> mine(sums_.begin(), sums_.end());
    for (const auto& [tensor, sum] : mpi::gather_all(comm, mine)) {
        all.at(tensor) ^= sum;
    }
    return all;
}

void write_stated_sums(mpi::Comm& comm, const plan::Plan& plan, const io::Directory& directory,
                       const std::vector<std::uint32_t>& sums, bool sync, CreatedFiles& created) {
    const auto tensors = plan::output_tensors(plan.targets);
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& before_file) {
        const outputs::Framer framer = plan.placement.format->framer();
        outputs::Placement placement = plan.placement;
        std::size_t at = 0;
        for (io::WrittenFile& made : created.frames) {
            before_file();
            while (placement.files.at(at).name != made.name.string()) {
                ++at;  // a rank makes its files in their order
            }
            const outputs::Frame frame = framer(placement, at, tensors);
            io::NotedFile file(io::OutputFile::open_existing(directory, made.name), made.name);
            for (const auto& [offset, bytes] : stated_parts(frame, sums)) {
                file.write(offset, bytes);
            }
            io::WrittenFile written = file.finish(sync);
            std::ranges::move(written.stretches, std::back_inserter(made.stretches));
            std::ranges::sort(made.stretches, {}, &io::WrittenStretch::offset);
        }
    });
}

}  // namespace shardweld::execute
