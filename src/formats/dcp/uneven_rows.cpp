#include "uneven_rows.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::dcp {

namespace {

bool has_none(std::span<const Index> sizes) {
    return contains(sizes, 0);
}

/// An item without elements is shorter than one that has some.
bool may_be_misplaced(const DcpTensor& tensor) {
    Bytes shortest = std::numeric_limits<Bytes>::max();
    for (const DcpChunk& chunk : tensor.chunks) {
        shortest = has_none(chunk.sizes) ? shortest : std::min(shortest, chunk.length);
    }
    return std::ranges::any_of(tensor.chunks, [&](const DcpChunk& chunk) {
        return has_none(chunk.sizes) && chunk.length >= shortest;
    });
}

/// nullopt where it is no archive of a tensor: who locates the pieces says so.
std::optional<std::vector<Index>> stored_shape(const Location& location,
                                               const DcpMetadata& metadata, const DcpChunk& chunk) {
    try {
        const auto file =
            io::InputFile::open(location.directory / metadata.files.at(chunk.file).path);
        const auto archive = TorchFile::read(file, chunk.offset, chunk.length, location.check_crc);
        const auto tensor = archive.tensor(archive.root());
        return tensor ? std::optional(tensor->shape) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// Where rows of one axis are missing, and what lies nowhere: to be put together.
struct Misplaced {
    std::size_t axis = 0;
    std::vector<std::pair<Index, Index>> gaps;     // begin and end, apart from each other
    std::vector<std::pair<DcpChunk, Index>> rows;  // with how many they are
    std::vector<Index> begins;                     // of `rows`, as they were placed last
    int n_ways = 0;

    /// Counts the ways to fill the gaps from `gap` on, of which `filled` rows are.
    void place(std::size_t gap, Index filled, std::vector<Index>& at) {
        if (gap == gaps.size()) {
            if (!contains(at, -1)) {
                ++n_ways;
                begins = at;
            }
            return;
        }
        const auto [begin, end] = gaps[gap];
        for (std::size_t i = 0; i < rows.size() && n_ways < 2; ++i) {
            const Index next = begin + filled + rows[i].second;
            if (at[i] == -1 && next <= end) {
                at[i] = begin + filled;
                place(next == end ? gap + 1 : gap, next == end ? 0 : next - begin, at);
                at[i] = -1;
            }
        }
    }
};

constexpr const char* kCause =
    ": so torch's FSDP2 writes what tensor parallelism does not divide, and cannot load it";
constexpr const char* kRemedy =
    "save full tensors (get_model_state_dict with full_state_dict), give the ranks' own files, or "
    "pad the rows to a multiple of the tensor-parallel size; if these files are of several saves, "
    "copy those of one";

[[noreturn]] void refuse_boxes(const std::string& what) {
    throw Error(ErrorCode::mismatch, what + kCause, kRemedy);
}

/// The axis along which a chunk has part of the tensor, or none of it; nullopt where there are
/// several.
std::optional<std::size_t> only_axis(const DcpTensor& tensor, std::span<const Index> sizes) {
    std::optional<std::size_t> axis;
    for (const std::size_t k : indices(sizes)) {
        if (sizes[k] != tensor.shape[k]) {
            if (axis) {
                return std::nullopt;
            }
            axis = k;
        }
    }
    return axis;
}

void add_gap(const DcpChunk& chunk, Misplaced& out) {
    const Index begin = chunk.offsets[out.axis];
    const Index end = begin + chunk.sizes[out.axis];
    if (!out.gaps.empty() && out.gaps.back().second == begin) {
        out.gaps.back().second = end;
    } else {
        out.gaps.emplace_back(begin, end);
    }
}

/// Puts the one way to place them into `tensor`, whose offsets and sizes live in `numbers`.
void place(Misplaced& found, DcpTensor& tensor, std::deque<std::vector<Index>>& numbers) {
    constexpr std::size_t kMostPlaced = 6;
    std::vector<Index> at(found.rows.size(), -1);
    if (found.rows.size() <= kMostPlaced) {
        found.place(0, 0, at);
    }
    if (found.n_ways != 1) {
        refuse_boxes(
            "rows are not where .metadata says, and the stored shapes do not tell where they "
            "belong");
    }
    for (const std::size_t i : indices(found.rows)) {
        DcpChunk chunk = found.rows[i].first;
        std::vector<Index>& offsets = numbers.emplace_back(tensor.shape.size(), 0);
        offsets[found.axis] = found.begins[i];
        chunk.offsets = offsets;
        std::vector<Index>& sizes = numbers.emplace_back(tensor.shape);
        sizes[found.axis] = found.rows[i].second;
        chunk.sizes = sizes;
        tensor.chunks.push_back(chunk);
    }
}

/// The tensor without the chunks that are not as they are said to be, which come into `found`;
/// nullopt where all are, or it cannot be told.
std::optional<DcpTensor> without_misplaced(const Location& location, const DcpMetadata& metadata,
                                           const DcpTensor& stored, Misplaced& found) {
    DcpTensor kept{stored.name, stored.dtype, stored.shape, {}};
    for (const DcpChunk& chunk : stored.chunks) {
        const auto shape = stored_shape(location, metadata, chunk);
        if (!shape || shape->size() != stored.shape.size()) {
            return std::nullopt;
        }
        const bool is_none = has_none(*shape);
        if (std::ranges::equal(*shape, chunk.sizes) || (is_none && has_none(chunk.sizes))) {
            kept.chunks.push_back(chunk);
            continue;
        }
        const bool is_gap = is_none && !has_none(chunk.sizes);
        const auto axis = only_axis(stored, is_gap ? chunk.sizes : std::span<const Index>(*shape));
        const bool is_first = found.gaps.empty() && found.rows.empty();
        if (!axis || (!is_first && *axis != found.axis) || (!is_gap && !has_none(chunk.sizes))) {
            refuse_boxes("a chunk is stored with shape " + shape_text(*shape) +
                         ", .metadata says " +
                         shape_text({chunk.sizes.begin(), chunk.sizes.end()}));
        }
        found.axis = *axis;
        if (is_gap) {
            add_gap(chunk, found);
        } else {
            found.rows.emplace_back(chunk, (*shape)[*axis]);
        }
    }
    return found.gaps.empty() && found.rows.empty() ? std::nullopt : std::optional(std::move(kept));
}

}  // namespace

Tensor tensor_as_stored(const Location& location, const DcpMetadata& metadata,
                        const DcpTensor& stored, std::vector<std::string>& placed) {
    if (!may_be_misplaced(stored)) {
        return tensor_of(stored);
    }
    return in_context("tensor ", stored.name, [&] {
        Misplaced found;
        auto tensor = without_misplaced(location, metadata, stored, found);
        if (!tensor) {
            return tensor_of(stored);
        }
        std::deque<std::vector<Index>> numbers;
        place(found, *tensor, numbers);
        placed.push_back(stored.name);
        return tensor_of(*tensor);
    });
}

std::string placed_text(const std::vector<std::string>& placed) {
    return ".metadata says of " + counted(placed.size(), "tensor") +
           " that ranks have rows which others have" + kCause +
           "; they were placed by the stored shapes, which leave one way: " + listed(placed);
}

}  // namespace shardweld::formats::dcp
