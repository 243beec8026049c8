#include "dcp_pieces.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fingerprint.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "shardweld/error.hpp"

#include "file_scan.hpp"
#include "iteration_directories.hpp"
#include "neighbour_names.hpp"

namespace shardweld::formats {

namespace {

Piece piece_of(const DcpChunk& chunk, const std::vector<StoredTensor>& views) {
    Piece piece;
    if (!views.empty()) {
        piece = formats::piece_of(views.at(chunk.view), chunk.offsets);
    }
    piece.file = chunk.file;
    piece.base = chunk.offset;
    piece.storage_bytes = chunk.length;
    piece.located = false;
    if (views.empty()) {
        layout::Box box;
        for (const std::size_t k : indices(chunk.sizes)) {
            box.push_back({chunk.offsets[k], chunk.sizes[k]});
        }
        piece.patch = layout::dense(box);
    }
    return piece;
}

}  // namespace

Bytes stored_bytes(const DcpTensor& tensor) {
    Bytes bytes = 0;
    for (const DcpChunk& chunk : tensor.chunks) {
        bytes = checked_add_bytes(bytes, chunk.length, "bytes of a tensor's chunks");
    }
    return bytes;
}

Tensor tensor_of(const DcpTensor& stored, const std::vector<StoredTensor>& views) {
    Tensor tensor;
    tensor.name = stored.name;
    tensor.stored_as = stored.name;
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    tensor.pieces.reserve(stored.chunks.size());
    for (const DcpChunk& chunk : stored.chunks) {
        if (!contains(chunk.sizes, 0)) {
            tensor.pieces.push_back(piece_of(chunk, views));
        }
    }
    return tensor;
}

namespace {

constexpr AssemblyErrors kTiling = {
    .gap = ErrorCode::corrupt, .overlap = ErrorCode::corrupt, .cover_hint = "take another save"};

}  // namespace

void check_tiling(const Tensor& tensor, const CoverFault& fault) {
    require_cover(tensor, fault, {}, kTiling);
}

void check_tiling(const Tensor& tensor) {
    check_tiling(tensor, find_cover_fault(tensor));
}

namespace {

constexpr const char* kReason = "a file that .metadata does not name";
// A file of safetensors without a tensor, as the writer makes it, has 88 bytes; the smallest item
// is larger.
constexpr Bytes kNoContent = 128;

/// Puts a row among `out`'s ignored for each of the location's neighbours that is among `files` and
/// none of `named`. Files without content are passed over: torch's writer makes one for a rank that
/// has nothing to save (torch 2.15, torch/distributed/checkpoint/filesystem.py). Pure.
void note_unnamed(const Location& location, const std::vector<std::string>& files,
                  const std::vector<File>& named, Catalogue& out) {
    std::set<std::string_view> known = collect_set<std::string_view>(named, &File::path);
    const std::set<std::string_view> shards(files.begin(), files.end());
    for (const Neighbour& neighbour : location.neighbours) {
        if (!shards.contains(neighbour.path) || known.contains(neighbour.path)) {
            continue;
        }
        const std::optional<Bytes> bytes = size_of(location, neighbour);
        if (!bytes || *bytes > kNoContent) {
            out.ignored.push_back({neighbour.path, kReason, 1, bytes.value_or(0)});
        }
    }
}

}  // namespace

void tell_unnamed(Catalogue& catalogue) {
    Ignored all{"*.distcp", kReason, 0, 0};
    std::vector<std::string> names;
    for (const Ignored& row : catalogue.ignored) {
        if (row.reason == kReason) {
            names.push_back(row.pattern);
            ++all.count;
            all.bytes = checked_add_bytes(all.bytes, row.bytes, "bytes of files left aside");
        }
    }
    if (names.empty()) {
        return;
    }
    std::erase_if(catalogue.ignored, [](const Ignored& row) { return row.reason == kReason; });
    catalogue.ignored.push_back(std::move(all));
    std::ranges::sort(names, natural_less);
    catalogue.warnings["unreferenced_files"] =
        counted(names.size(), "shard file") + " with " +
        human_bytes(catalogue.ignored.back().bytes) + " " + verb_of(names.size(), "is", "are") +
        " not named in .metadata and not read: " + listed(names) + "; " +
        verb_of(names.size(), "does it", "do they") + " belong to another save?";
}

ObjectPlace place_of(const DcpObject& object, const DcpMetadata& metadata) {
    return {metadata.files.at(object.file).path, object.offset, object.length};
}

void take_files(const Location& location, const std::vector<std::string>& shards,
                std::vector<File> files, Catalogue& out) {
    note_unnamed(location, shards, files, out);
    out.files = std::move(files);
    order_files(out, Unused::dropped);
}

RankGrid part_grid(const RankFiles& files) {
    constexpr Index kLargestRank = 1 << 16;
    std::vector<Index> ranks;
    for (const std::string& path : files.paths) {
        const auto parts = match_name("__{rank}_*.distcp", path);
        if (!parts) {
            return {};
        }
        ranks.push_back(std::min(parts->number("rank"), kLargestRank));
    }
    RankGrid grid({{"rank", std::ranges::max(ranks) + 1}}, RankGrid::GridPlace::none);
    for (std::size_t file = 0; file < ranks.size() && !grid.places.empty(); ++file) {
        const auto rank = static_cast<std::size_t>(ranks[file]);
        grid.places[rank] = RankGrid::GridPlace::file;
        grid.files[rank] = static_cast<std::uint32_t>(file);
    }
    return grid;
}

namespace {

/// What is known of an item beside its bytes, by its place in the file.
using ItemPlace = std::pair<Bytes, std::uint64_t>;

std::uint64_t shape_of(const Tensor& tensor, const Piece& piece) {
    Fingerprint shape;
    shape.add(torch_name(tensor.dtype));
    for (const layout::Axis& axis : piece.patch.axes) {
        if (axis.extent != 1) {
            shape.add(static_cast<std::uint64_t>(axis.extent));
        }
    }
    return shape.value();
}

/// What tells each file from others once its items are opened.
std::vector<std::string> likenesses(const Catalogue& catalogue) {
    std::vector<std::vector<ItemPlace>> items(catalogue.files.size());
    catalogue::each_tensor(catalogue, [&](const Tensor& tensor) {
        for (const Piece& piece : tensor.pieces) {
            items[piece.file].emplace_back(piece.base, shape_of(tensor, piece));
        }
    });
    std::vector<std::string> texts;
    for (const std::size_t file : indices(items)) {
        std::ranges::sort(items[file]);
        Fingerprint all;
        all.add(catalogue.files[file].size);
        for (const auto& [base, shape] : items[file]) {
            all.add(base);
            all.add(shape);
        }
        texts.push_back(std::to_string(all.value()));
    }
    return texts;
}

}  // namespace

void add_save_name(const std::string& checkpoint_id, const std::string& index, Catalogue& out) {
    if (const auto iteration = iteration_of(checkpoint_id)) {
        out.statements.push_back({index,
                                  "the name of the directory that was saved to",
                                  {},
                                  {{"iteration", std::to_string(*iteration)}}});
    }
}

void add_likenesses(const std::string& index, Catalogue& out) {
    const auto alike = likenesses(out);
    for (const std::size_t file : indices(out.files)) {
        out.statements.push_back({out.files[file].path,
                                  "its pieces, as .metadata lists them",
                                  {},
                                  {{"index", index}},
                                  true,
                                  alike[file]});
    }
}

}  // namespace shardweld::formats
