#include "file_scan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "catalogue/tensor.hpp"
#include "core/text.hpp"
#include "formats/containers/pickle_arena.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

void IgnoredRows::add(const std::pair<std::string, std::string>& row, Index count, Bytes bytes) {
    catalogue::Ignored& counted = rows_[row];
    counted.count = checked_add(counted.count, count, "things left aside");
    counted.bytes = checked_add_bytes(counted.bytes, bytes, "bytes left aside");
}

void IgnoredRows::add(const std::vector<catalogue::Ignored>& rows) {
    for (const catalogue::Ignored& row : rows) {
        add({row.pattern, row.reason}, row.count, row.bytes);
    }
}

std::vector<catalogue::Ignored> IgnoredRows::take() const {
    std::vector<catalogue::Ignored> rows;
    for (const auto& [key, counted] : rows_) {
        rows.push_back({key.first, key.second, counted.count, counted.bytes});
    }
    return rows;
}

using catalogue::Catalogue;

namespace {

/// Bytes of a file's storages in which tensors lie; of elements that several share, once.
class BytesRead {
  public:
    void add(const catalogue::Piece& piece, DType dtype) {
        const Bytes bytes = to_bytes(piece.patch.volume(), "elements") * size_of(dtype);
        Bytes& read = storages_[piece.base];
        read = std::min(checked_add_bytes(read, bytes, "bytes read"), piece.storage_bytes);
    }
    [[nodiscard]] Bytes sum() const {
        Bytes sum = 0;
        for (const auto& [base, read] : storages_) {
            sum = checked_add_bytes(sum, read, "bytes read");
        }
        return sum;
    }

  private:
    std::map<Bytes, Bytes> storages_;  // by their offsets
};

// So that no byte of the file goes unmentioned.
void add_unread(const TorchFile& file, Catalogue& out) {
    BytesRead read;
    for (const catalogue::Tensor& tensor : out.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            read.add(piece, tensor.dtype);
        }
    }
    for (const catalogue::Shard& shard : out.shards) {
        read.add(shard.piece, shard.dtype);
    }
    Bytes told = read.sum();
    for (const catalogue::Ignored& row : out.ignored) {
        told = checked_add_bytes(told, row.bytes, "bytes left aside");
    }
    if (const Bytes all = file.storage_bytes(); all > told) {
        out.ignored.push_back(
            {"(storages)", "no tensor of the model lies in these bytes", 1, all - told});
    }
}

}  // namespace

Catalogue scan_torch_file(const Location& location, const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    return scan_torch_file(io::InputFile::open(location.directory / file), location, file, add);
}

Catalogue scan_torch_file(const io::InputFile& input, const Location& location,
                          const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    const TorchFile torch_file = TorchFile::read(input, 0, std::nullopt, location.check_crc);
    Catalogue out;
    out.files.push_back({file, input.size()});
    for (const std::string& global : torch_file.pickle().inert_globals()) {
        out.inert_globals[global] = 1;
    }
    try {
        add(torch_file, out);
        add_unread(torch_file, out);
        torch_file.require_unchanged();
    } catch (Error& error) {
        error.add_context("file " + printable(file));
        throw;
    } catch (const std::bad_alloc&) {
        throw_no_memory(location.directory / file);
    }
    return out;
}

std::uint32_t join_scan(Catalogue& scan, IgnoredRows& ignored, Catalogue& out) {
    const auto file = static_cast<std::uint32_t>(out.files.size());
    out.files.push_back(std::move(scan.files.front()));
    ignored.add(scan.ignored);
    std::move(scan.statements.begin(), scan.statements.end(), std::back_inserter(out.statements));
    for (const auto& [global, count] : scan.inert_globals) {
        out.inert_globals[global] += count;
    }
    for (catalogue::Tensor& tensor : scan.tensors) {
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.file = file;
        }
    }
    for (catalogue::Shard& shard : scan.shards) {
        shard.piece.file = file;
    }
    return file;
}

catalogue::Piece piece_of(const StoredTensor& stored, std::span<const Index> lo) {
    if (stored.shape.size() > layout::kMaxAxes) {
        throw Error(ErrorCode::unsupported,
                    "a tensor of " + std::to_string(stored.shape.size()) + " axes; at most " +
                        std::to_string(layout::kMaxAxes) + " are supported");
    }
    catalogue::Piece piece;
    piece.base = stored.storage_offset;
    piece.storage_bytes = stored.storage_bytes;
    piece.crc32 = stored.crc32;
    piece.patch.offset = stored.element_offset;
    for (std::size_t k = 0; k < stored.shape.size(); ++k) {
        piece.patch.axes.push_back({lo.empty() ? 0 : lo[k], stored.shape[k], stored.strides[k]});
    }
    return piece;
}

namespace {

using catalogue::Piece;

// Order of boxes: by begin, then by extent; pieces of one tensor have the same axes.
int compare(const Piece& a, const Piece& b) {
    for (std::size_t k = 0; k < a.patch.axes.size(); ++k) {
        const layout::Axis& x = a.patch.axes[k];
        const layout::Axis& y = b.patch.axes[k];
        if (x.lo != y.lo) {
            return x.lo < y.lo ? -1 : 1;
        }
        if (x.extent != y.extent) {
            return x.extent < y.extent ? -1 : 1;
        }
    }
    return 0;
}

std::string box_text(const Piece& piece) {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    for (const layout::Axis& axis : piece.patch.axes) {
        offsets.push_back(axis.lo);
        sizes.push_back(axis.extent);
    }
    return shape_text(sizes) + " at " + shape_text(offsets);
}

}  // namespace

void number_replicas(std::vector<Piece>& pieces) {
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        const int order = compare(a, b);
        return order < 0 || (order == 0 && a.file < b.file);
    });
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const bool is_copy =
            i > 0 && compare(pieces[i - 1], pieces[i]) == 0 && pieces[i - 1].file != pieces[i].file;
        pieces[i].replica = is_copy ? pieces[i - 1].replica + 1 : 0;
    }
}

CoverFault find_cover_fault(const catalogue::Tensor& tensor) {
    std::vector<const Piece*> primary;
    std::vector<const layout::Patch*> patches;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0) {
            primary.push_back(&piece);
            patches.push_back(&piece.patch);
        }
    }
    const Cover cover = patches.empty()
                            ? layout::check_cover(tensor.shape, {})
                            : layout::check_cover(layout::dense_shape(tensor.shape), patches);
    CoverFault fault;
    fault.kind = cover.kind;
    if (cover.kind == Cover::Kind::gap) {
        fault.text = "between " + shape_text(cover.lo) + " and " + shape_text(cover.hi);
    } else if (cover.kind == Cover::Kind::overlap) {
        fault.first_box = box_text(*primary[cover.first]);
        fault.second_box = box_text(*primary[cover.second]);
        fault.text = fault.first_box + " and " + fault.second_box;
        fault.first_file = primary[cover.first]->file;
        fault.second_file = primary[cover.second]->file;
    }
    return fault;
}

}  // namespace shardweld::formats
