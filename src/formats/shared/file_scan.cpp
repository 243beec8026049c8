#include "file_scan.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle_arena.hpp"
#include "io/advice.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "scalar_value.hpp"

namespace shardweld::formats {

void IgnoredRows::add(const RowName& row, Index count, Bytes bytes) {
    Ignored& counted = rows_[row];
    counted.count = checked_add(counted.count, count, "things left aside");
    counted.bytes = checked_add_bytes(counted.bytes, bytes, "bytes left aside");
}

void IgnoredRows::add(const std::vector<Ignored>& rows) {
    for (const Ignored& row : rows) {
        add({row.pattern, row.reason}, row.count, row.bytes);
    }
}

std::vector<Ignored> IgnoredRows::rows() const {
    std::vector<Ignored> rows;
    for (const auto& [key, counted] : rows_) {
        rows.push_back({key.first, key.second, counted.count, counted.bytes});
    }
    return rows;
}

namespace {

// So that no byte of the file goes unmentioned.
void add_unread(const TorchFile& file, Catalogue& out) {
    std::map<Bytes, Bytes> storages;  // by their offsets; of elements that several share, once
    const auto add = [&](const Piece& piece, DType dtype) {
        const Bytes bytes = to_bytes(piece.patch.volume(), "elements") * size_of(dtype);
        Bytes& read = storages[piece.base];
        read = std::min(checked_add_bytes(read, bytes, "bytes read"), piece.storage_bytes);
    };
    catalogue::each_tensor(out, [&](const Tensor& tensor) {
        for (const Piece& piece : tensor.pieces) {
            add(piece, tensor.dtype);
        }
    });
    catalogue::each_shard(out, [&](const Shard& shard) { add(shard.piece, shard.dtype); });
    Bytes told = 0;
    for (const auto& [base, read] : storages) {
        told = checked_add_bytes(told, read, "bytes read");
    }
    for (const Ignored& row : out.ignored) {
        told = checked_add_bytes(told, row.bytes, "bytes left aside");
    }
    if (const Bytes all = file.storage_bytes(); all > told) {
        out.ignored.push_back(
            {"(storages)", "no tensor of the model lies in these bytes", 1, all - told});
    }
}

}  // namespace

Catalogue scan_input_file(const Location& location, const std::string& file,
                          const std::function<void(const io::InputFile&, Catalogue&)>& add) {
    Catalogue out;
    in_context("file ", file, [&] {
        const auto input = io::InputFile::open(location.directory / file);
        io::read_in_pieces(input);
        out.files.push_back({file, input.size()});
        add(input, out);
    });
    return out;
}

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

void use_torch_file(
    const Location& location, const std::string& file,
    const std::function<void(const PickleValue& root, const ScalarReader& scalars)>& use) {
    if (io::is_file(location.directory / file)) {
        in_context("file ", file, [&] {
            const auto input = io::InputFile::open(location.directory / file);
            const auto torch_file = TorchFile::read(input, 0, std::nullopt, location.check_crc);
            use(torch_file.root(), ScalarReader(torch_file, input));
        });
    }
}

Piece piece_of(const StoredTensor& stored, std::span<const Index> lo) {
    if (stored.shape.size() > layout::kMaxAxes) {
        throw Error(ErrorCode::unsupported,
                    "a tensor of " + std::to_string(stored.shape.size()) + " axes; at most " +
                        std::to_string(layout::kMaxAxes) + " are supported");
    }
    Piece piece;
    piece.base = stored.storage_offset;
    piece.storage_bytes = stored.storage_bytes;
    piece.crc32 = stored.crc32;
    piece.patch.offset = stored.element_offset;
    for (const std::size_t k : indices(stored.shape)) {
        piece.patch.axes.push_back({lo.empty() ? 0 : lo[k], stored.shape[k], stored.strides[k]});
    }
    return piece;
}

}  // namespace shardweld::formats
