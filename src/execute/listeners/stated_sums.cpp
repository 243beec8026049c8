#include "stated_sums.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
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

/// The parts of a frame, as they are to be written.
class StatedParts {
  public:
    explicit StatedParts(const outputs::Frame& frame) {
        for (const outputs::FileBytes& part : frame.parts) {
            parts_.emplace_back(part.offset, ByteBuffer(part.bytes.begin(), part.bytes.end()));
        }
    }

    [[nodiscard]] std::vector<StatedPart> take() { return std::move(parts_); }

    /// Adds a share to a checksum.
    void add(Bytes place, std::uint32_t share) { put_sum(place, sum_at(place) ^ share); }

    /// Digits that follow from checksums that are whole now.
    void put_digits(const outputs::ChecksumText& text) {
        std::vector<std::uint32_t> sums =
            collect_list(text.sums, [&](const Bytes place) { return sum_at(place); });
        const std::string digits = text.text(sums);
        const auto to = at(text.offset, digits.size());
        std::ranges::copy(std::as_bytes(std::span(digits)), to.begin());
        const Bytes size = text.offset - text.record + digits.size();
        for (const Bytes place : text.own) {
            put_sum(place, crc32(at(text.record, size)));
        }
    }

  private:
    ByteSpan at(Bytes offset, Bytes size) {
        auto& [begin, bytes] =
            *std::prev(std::ranges::upper_bound(parts_, offset, {}, &StatedPart::first));
        return std::span(bytes).subspan(offset - begin, size);
    }
    std::uint32_t sum_at(Bytes place) {
        std::uint32_t sum = 0;
        std::memcpy(&sum, at(place, sizeof(sum)).data(), sizeof(sum));
        return sum;
    }
    void put_sum(Bytes place, std::uint32_t sum) {
        std::memcpy(at(place, sizeof(sum)).data(), &sum, sizeof(sum));
    }

    std::vector<StatedPart> parts_;
};

}  // namespace

std::vector<StatedPart> stated_parts(const outputs::Frame& frame,
                                     const std::map<std::uint32_t, std::uint32_t>& sums) {
    StatedParts parts(frame);
    for (const outputs::ChecksumPlace& place : frame.checksums) {
        auto* const sum = find_value(sums, place.tensor);
        parts.add(place.offset, crc32_moved(sum == nullptr ? 0 : *sum, place.behind));
    }
    std::ranges::for_each(frame.texts,
                          [&](const outputs::ChecksumText& text) { parts.put_digits(text); });
    return parts.take();
}

void WrittenSums::add(const plan::Slice& slice, ByteView bytes) {
    const plan::WrittenTensor& tensor = plan_.tensor(slice.tensor);
    const auto n_behind = static_cast<Bytes>(tensor.volume() - slice.end) * size_of(tensor.dtype);
    sums_[slice.tensor] ^= crc32_moved(crc32(bytes), n_behind);
}

std::map<std::uint32_t, std::uint32_t> WrittenSums::gather(mpi::Comm& comm) const {
    std::map<std::uint32_t, std::uint32_t> all;
    const std::vector<std::pair<std::uint32_t, std::uint32_t>> mine(sums_.begin(), sums_.end());
    for (const auto& [tensor, sum] : mpi::gather_all(comm, mine)) {
        all[tensor] ^= sum;
    }
    return all;
}

void WrittenSums::write_frames(mpi::Comm& comm, const io::Directory& directory, bool sync,
                               CreatedFiles& created) const {
    const auto sums = gather(comm);
    const auto tensors = plan::output_tensors(plan_.targets);
    mpi::collectively_in_steps(comm, [&](const mpi::OnStep& before_file) {
        const outputs::Framer framer = plan_.placement.format->framer();
        outputs::Placement placement = plan_.placement;
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
            append_all(made.stretches, std::move(written.stretches));
            std::ranges::sort(made.stretches, {}, &io::WrittenStretch::offset);
        }
    });
}

}  // namespace shardweld::execute
