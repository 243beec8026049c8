#include "dcp_blobs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/range_reader.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"
#include "model_values.hpp"
#include "module_names.hpp"

namespace shardweld::formats {

namespace {

// A piece to be located: in files[slot], to be put at pieces[position].
struct PieceInFile {
    std::size_t slot;
    Bytes base;
    std::size_t position;
    const Tensor* tensor;
};

std::vector<Index> without_unit_axes(const std::vector<Index>& shape) {
    return filter_list(shape, [](Index extent) { return extent != 1; });
}

std::vector<Index> extents_of(const layout::Patch& patch) {
    return collect_list(patch.axes, &layout::Axis::extent);
}

void require_match(const StoredTensor& stored, const Tensor& tensor, const Piece& piece) {
    require_equal("a chunk's type", stored.dtype, "the file", tensor.dtype, ".metadata");
    if (std::ranges::equal(stored.shape, piece.patch.axes, {}, {}, &layout::Axis::extent)) {
        return;
    }
    const auto extents = extents_of(piece.patch);
    if (without_unit_axes(stored.shape) != without_unit_axes(extents)) {
        require_equal("a chunk's shape", stored.shape, "the file", extents, ".metadata");
    }
}

// Axes of extent one may come and go between index and archive; the others correspond in order.
// Unit axes get the stride they would have in a dense tensor: it is never used, but keeps patches
// comparable.
Piece with_strides_of(const StoredTensor& stored, Piece piece) {
    std::size_t from = stored.shape.size();
    Index dense_stride = 1;
    for (std::size_t k = piece.patch.axes.size(); k-- > 0;) {
        layout::Axis& axis = piece.patch.axes[k];
        axis.stride = dense_stride;
        if (axis.extent != 1) {
            do {
                --from;
            } while (stored.shape[from] == 1);
            axis.stride = stored.strides[from];
        }
        dense_stride = checked_mul(axis.stride, axis.extent, "a chunk's strides");
    }
    piece.patch.offset = stored.element_offset;
    piece.base = stored.storage_offset;
    piece.storage_bytes = stored.storage_bytes;
    piece.crc32 = stored.crc32;
    piece.located = true;
    return piece;
}

constexpr Bytes kHeaderAt = 8;

}  // namespace

bool begins_container(const io::InputFile& file, Bytes begin) {
    std::array<std::byte, 1> byte{};
    if (file.size() <= kHeaderAt || begin >= file.size() - kHeaderAt) {
        return false;
    }
    file.read_at(begin + kHeaderAt, byte);
    return byte[0] == std::byte{'{'};
}

namespace {

// One shard file, opened.
class ShardFile {
  public:
    /// `places`, front to back, are those that the index names; `check_crc` as in TorchFile::read.
    ShardFile(const fs::path& path, std::span<const ArchiveRange> places, bool check_crc,
              bool are_archives)
        : file_(io::InputFile::open(path)),
          edges_(file_, are_archives ? in_order(places) : std::span(places).first(0)),
          check_crc_(check_crc),
          are_archives_(are_archives) {
        if (are_archives && holds_safetensors(places.front().begin)) {
            index_ = read_safetensors_header(file_, places.front().begin);
        }
    }

    [[nodiscard]] Bytes size() const { return file_.size(); }

    /// `end`: where the index says that its last item ends, 0 if it was not asked. What is too
    /// short shows at the item that is missing.
    void require_end(Bytes end) const {
        if (end != 0 && file_.size() > end && !index_) {
            throw mixed_saves_error("it has " + std::to_string(file_.size()) +
                                    " bytes, but by .metadata its last item ends at " +
                                    std::to_string(end));
        }
    }

    /// Front to back.
    [[nodiscard]] Piece locate(const Tensor& tensor, Piece piece) {
        if (!are_archives_) {
            require_place(piece);
            piece.located = true;
            return piece;
        }
        const StoredTensor stored = index_ ? take_from_index(tensor.stored_as) : in_archive(piece);
        require_match(stored, tensor, piece);
        return with_strides_of(stored, piece);
    }

  private:
    // Those before the first that require_place refuses.
    [[nodiscard]] std::span<const ArchiveRange> in_order(
        std::span<const ArchiveRange> places) const {
        Bytes end = 0;
        std::size_t n = 0;
        while (n < places.size() && places[n].begin >= end && places[n].begin <= file_.size() &&
               places[n].bytes <= file_.size() - places[n].begin) {
            end = places[n].begin + places[n].bytes;
            ++n;
        }
        return places.first(n);
    }

    [[nodiscard]] bool holds_safetensors(Bytes first) {
        const auto held = edges_.at(first + kHeaderAt, 1);
        return held.empty() ? begins_container(file_, first) : held.front() == std::byte{'{'};
    }

    // Such a container has one entry per name: torch keeps the last of several chunks. So each
    // entry is given once.
    [[nodiscard]] StoredTensor take_from_index(const std::string& name) {
        auto entry = index_->extract(name);
        if (entry.empty()) {
            throw Error(ErrorCode::corrupt,
                        "the file does not hold all chunks that .metadata names",
                        "save it as *.distcp: torch keeps only one chunk of a tensor in a "
                        "safetensors shard");
        }
        return entry.mapped();
    }

    // Inside the file, and behind what was read so far.
    void require_place(const Piece& piece) {
        const bool is_inside =
            piece.base <= file_.size() && piece.storage_bytes <= file_.size() - piece.base;
        if (!is_inside || piece.base < end_) {
            throw Error(
                ErrorCode::corrupt,
                "a chunk is said to lie at bytes [" + std::to_string(piece.base) + ", +" +
                    std::to_string(piece.storage_bytes) + "), " +
                    (is_inside ? "where another chunk lies, which ends at " + std::to_string(end_)
                               : "but the file has " + std::to_string(file_.size()) + " bytes"));
        }
        end_ = piece.base + piece.storage_bytes;
    }

    [[nodiscard]] StoredTensor in_archive(const Piece& piece) {
        require_place(piece);
        const auto archive =
            TorchFile::read(file_, piece.base, piece.storage_bytes, check_crc_, &edges_, &pickles_);
        const auto stored = archive.tensor(archive.root());
        if (!stored) {
            refuse_value(archive.root());
        }
        archive.require_unchanged();
        return *stored;
    }

    io::InputFile file_;
    EdgeReads edges_;
    KnownPickles pickles_;
    bool check_crc_;
    bool are_archives_;
    Bytes end_ = 0;                                             // of the blobs read so far
    std::optional<std::map<std::string, StoredTensor>> index_;  // of a safetensors container
};

// The unlocated pieces of `files` in the catalogue's order, and what to do for each.
std::vector<PieceInFile> pieces_by_file(const Catalogue& catalogue, Resolution& out) {
    constexpr auto kNotOurs = static_cast<std::size_t>(-1);
    std::vector<std::size_t> slots(catalogue.files.size(), kNotOurs);
    for (const std::size_t i : indices(out.files)) {
        slots.at(out.files[i]) = i;
    }
    std::vector<PieceInFile> wanted;
    catalogue::each_tensor(catalogue, [&](const Tensor& tensor) {
        for (const Piece& piece : tensor.pieces) {
            if (!piece.located && slots.at(piece.file) != kNotOurs) {
                wanted.push_back({slots[piece.file], piece.base, out.pieces.size(), &tensor});
                out.pieces.push_back(piece);
            }
        }
    });
    // File by file, front to back.
    std::ranges::sort(wanted, {}, [](const PieceInFile& one) {
        return std::tuple(one.slot, one.base, one.position);
    });
    return wanted;
}

/// Where the pieces of the first of `wanted` and of those behind it in its file lie.
std::vector<ArchiveRange> places_of(std::span<const PieceInFile> wanted,
                                    const std::vector<Piece>& pieces) {
    std::vector<ArchiveRange> places;
    for (const PieceInFile& one : wanted) {
        if (one.slot != wanted.front().slot) {
            break;
        }
        places.push_back({pieces[one.position].base, pieces[one.position].storage_bytes});
    }
    return places;
}

}  // namespace

Resolution locate_blobs(const Location& location, const Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file, bool are_archives) {
    Resolution out;
    out.files.assign(files.begin(), files.end());
    out.sizes.assign(files.size(), 0);
    std::optional<ShardFile> shard;
    std::size_t opened = files.size();
    const std::vector<PieceInFile> wanted = pieces_by_file(catalogue, out);
    for (const PieceInFile& one : wanted) {
        const std::string& path = catalogue.files[files[one.slot]].path;
        try {
            if (one.slot != opened) {
                before_file();
                const auto at = static_cast<std::size_t>(&one - wanted.data());
                shard.emplace(location.directory / path,
                              places_of(std::span(wanted).subspan(at), out.pieces),
                              location.check_crc, are_archives);
                opened = one.slot;
                shard->require_end(catalogue.files[files[one.slot]].size);
                out.sizes[one.slot] = shard->size();
            }
            Piece& piece = out.pieces[one.position];
            piece = shard->locate(*one.tensor, piece);
        } catch (Error& error) {
            error.add_context("tensor " + printable(one.tensor->name));
            error.add_context("file " + printable(path));
            throw;
        }
    }
    return out;
}

Resolution locate_archives(const Location& location, const Catalogue& catalogue,
                           std::span<const std::uint32_t> files,
                           const std::function<void()>& before_file) {
    return locate_blobs(location, catalogue, files, before_file, true);
}

namespace {

[[noreturn]] void refuse_unseen(const std::string& what) {
    throw Error(ErrorCode::unsupported,
                "it is stored as an object, not as a tensor, and " + what +
                    ": whether it is a weight is not known",
                "save it as a tensor, or leave it out of the model's dictionary");
}

bool is_archive(const io::InputFile& file, const ObjectPlace& place) {
    std::array<std::byte, 2> head{};
    if (place.length < head.size() || place.offset > file.size() - head.size()) {
        return false;
    }
    file.read_at(place.offset, head);
    return head[0] == std::byte{'P'} && head[1] == std::byte{'K'};
}

void require_no_weight(const Location& location, const ObjectPlace& place,
                       const std::string& name) {
    if (!io::is_file(location.directory / place.file)) {
        refuse_unseen("the file that holds it is not here");
    }
    const auto input = io::InputFile::open(location.directory / place.file);
    if (!is_archive(input, place)) {
        refuse_unseen("it is no archive of torch.save");
    }
    const auto archive = TorchFile::read(input, place.offset, place.length, location.check_crc);
    const PickleValue& value = only_element_of(archive.root());
    if (archive.tensor(value)) {
        throw Error(ErrorCode::unsupported,
                    "it is a tensor that is stored as an object, which is not read",
                    "save it as a tensor");
    }
    IgnoredRows rows;
    ModelValues(archive, rows).leave_aside(name, value);
}

}  // namespace

const PickleValue& only_element_of(const PickleValue& root) {
    return root.kind == PickleKind::list && root.elements().size() == 1 ? *root.elements().front()
                                                                        : root;
}

void require_no_part(const TorchFile& file, const PickleValue& state) {
    IgnoredRows rows;
    ModelValues values(file, rows);
    for (const auto& [key, value] : state.pairs()) {
        values.require_no_part(key.text(), value, [](std::string_view /*name*/) { return false; });
    }
}

void require_no_part(const Location& location, const ObjectPlace& place, const std::string& name,
                     const std::function<bool(std::string_view)>& is_models) {
    const fs::path path = location.directory / place.file;
    if (place.length == 0 || !io::is_file(path)) {
        return;
    }
    const auto input = io::InputFile::open(path);
    if (!is_archive(input, place)) {
        return;
    }
    const auto archive = TorchFile::read(input, place.offset, place.length, location.check_crc);
    IgnoredRows rows;
    in_context("file ", place.file, [&] {
        ModelValues(archive, rows)
            .require_no_part(name, only_element_of(archive.root()), is_models);
    });
}

void leave_aside_object(const Location& location, const ObjectPlace& place, const std::string& name,
                        IgnoredRows& ignored) {
    const bool is_state = is_extra_state(name);
    if (!is_state && place.length > 0) {
        in_context("file ", place.file, [&] {
            in_context("tensor ", name, [&] { require_no_weight(location, place, name); });
        });
    }
    ignored.add({pattern_of(printable(name)), is_state ? "extra state" : "not a tensor"}, 1,
                place.length);
}

}  // namespace shardweld::formats
