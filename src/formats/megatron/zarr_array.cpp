#include "zarr_array.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "io/beneath.hpp"
#include "io/errno.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

using nlohmann::json;

constexpr Bytes kLargestArrayFile = 1U << 16U;
constexpr Bytes kLargestExtent = std::numeric_limits<Index>::max();
constexpr std::size_t kMostNamed = 20;

// numpy's spelling. zarr knows no bfloat16: tensorstore writes its own word, numpy two raw bytes.
constexpr std::array<std::pair<std::string_view, DType>, 14> kTypes = {{{"bfloat16", DType::bf16},
                                                                        {"|V2", DType::bf16},
                                                                        {"<V2", DType::bf16},
                                                                        {"<f2", DType::f16},
                                                                        {"<f4", DType::f32},
                                                                        {"<f8", DType::f64},
                                                                        {"|b1", DType::boolean},
                                                                        {"|u1", DType::u8},
                                                                        {"|i1", DType::i8},
                                                                        {"<u2", DType::u16},
                                                                        {"<i2", DType::i16},
                                                                        {"<u4", DType::u32},
                                                                        {"<i4", DType::i32},
                                                                        {"<i8", DType::i64}}};

[[noreturn]] void refuse(const std::string& field, const json& value, const std::string& expected) {
    throw Error(ErrorCode::unsupported,
                field + " is " +
                    printable(value.dump(-1, ' ', true, json::error_handler_t::replace)) +
                    ", expected " + expected,
                "save the checkpoint once with --ckpt-format torch_dist");
}

// A field that means what it does by default when it is null or left out.
json field_of(const json& root, const char* name) {
    return root.contains(name) ? root[name] : json();
}

DType dtype_of(const json& root) {
    const json dtype = field_of(root, "dtype");
    const auto* const at = std::ranges::find_if(kTypes, [&](const auto& type) {
        return dtype.is_string() && dtype.get_ref<const std::string&>() == type.first;
    });
    if (at == kTypes.end()) {
        refuse("dtype", dtype, "a little-endian number type such as bfloat16 or <f4");
    }
    return at->second;
}

std::vector<Index> extents_of(const json& root, const char* name) {
    const json list = field_of(root, name);
    std::vector<Index> extents;
    bool sound = list.is_array();
    for (std::size_t k = 0; sound && k < list.size(); ++k) {
        sound = list[k].is_number_unsigned() && list[k].get<Bytes>() <= kLargestExtent;
        if (sound) {
            extents.push_back(list[k].get<Index>());
        }
    }
    if (!sound) {
        throw Error(ErrorCode::corrupt, std::string(name) + " is not a list of sizes");
    }
    return extents;
}

void require_plain(const json& root) {
    const auto require = [&](const char* name, const char* expected, const auto& is_plain) {
        if (const json value = field_of(root, name); !is_plain(value)) {
            refuse(name, value, expected);
        }
    };
    require("zarr_format", "2", [](const json& value) { return value == 2; });
    require("compressor", "null", [](const json& value) { return value.is_null(); });
    require("filters", "null", [](const json& value) { return value.empty(); });  // null or []
    require("order", "\"C\"", [](const json& value) { return value == "C"; });
    require("dimension_separator", "\".\"",
            [](const json& value) { return value.is_null() || value == "."; });
}

// Chunks along each axis: 0 where the array is empty.
std::vector<Index> grid_of(const ZarrArray& array) {
    std::vector<Index> grid;
    for (const std::size_t k : indices(array.shape)) {
        grid.push_back(array.shape[k] == 0 ? 0 : (array.shape[k] - 1) / array.chunks[k] + 1);
    }
    return grid;
}

std::string chunk_name(const std::vector<Index>& at) {
    return at.empty() ? "0"
                      : joined(at, ".", [](const Index number) { return std::to_string(number); });
}

// A name as the place in the grid that has exactly this name.
std::vector<Index> place_of(const std::string& name, const std::vector<Index>& grid) {
    std::vector<Index> at = collect_list(split(name, '.'), [](const std::string_view part) {
        return parse_index(part).value_or(-1);
    });
    if (grid.empty() && at == std::vector<Index>{0}) {
        at.clear();
    }
    bool inside = at.size() == grid.size();
    for (std::size_t k = 0; inside && k < grid.size(); ++k) {
        inside = at[k] >= 0 && at[k] < grid[k];
    }
    if (!inside || chunk_name(at) != name) {
        throw Error(ErrorCode::corrupt,
                    "chunk file " + printable(name) + " has no place in the grid of " +
                        shape_text(grid) + " chunks",
                    "remove what is left from another save");
    }
    return at;
}

// Stops at the first few absent names, so that a huge grid costs no more than the files there are.
[[noreturn]] void report_missing(const std::set<std::vector<Index>>& found,
                                 const std::vector<Index>& grid, Index n_chunks) {
    std::vector<std::string> missing;
    std::vector<Index> at(grid.size(), 0);
    const Index n_missing = n_chunks - std::ssize(found);
    for (bool more = true; more && missing.size() < kMostNamed;) {
        if (!found.contains(at)) {
            missing.push_back(chunk_name(at));
        }
        std::size_t k = at.size();
        while (k > 0 && ++at[k - 1] == grid[k - 1]) {
            at[--k] = 0;
        }
        more = k > 0;
    }
    const auto n_unnamed = n_missing - std::ssize(missing);
    throw files_missing(std::to_string(n_missing) + " of " + std::to_string(n_chunks) +
                        " chunk files are missing: " + name_list(missing) +
                        (n_unnamed > 0 ? " and " + std::to_string(n_unnamed) + " more" : ""));
}

Piece piece_of(const ZarrArray& array, const std::vector<Index>& at) {
    Piece piece;
    auto& axes = piece.patch.axes;
    for (const std::size_t k : indices(at)) {
        const Index lo = at[k] * array.chunks[k];
        axes.push_back({lo, std::min(array.chunks[k], array.shape[k] - lo), 0});
    }
    Index stride = 1;
    // An edge chunk is stored whole: strides are those of the full chunk.
    for (std::size_t k = at.size(); k-- > 0;) {
        axes[k].stride = stride;
        stride *= array.chunks[k];
    }
    return piece;
}

Bytes size_on_disk(const fs::path& path) {
    std::error_code failed;
    const auto size = fs::file_size(path, failed);
    if (failed) {
        io::throw_errno(failed.value(), "find the size of", path);
    }
    return size;
}

// Chunks are bytes without any form: a link could make any file of this machine part of the model.
void require_own(const fs::path& directory, const std::string& name, const Listing& listing) {
    std::vector<fs::path> paths = {directory / name};
    for (const std::string& link : listing.links) {
        paths.push_back(directory / name / link);
    }
    for (const fs::path& path : paths) {
        if (const auto end = io::leads_out_of(path, directory)) {
            throw Error(ErrorCode::corrupt,
                        printable(path.filename().string()) +
                            " leads through a link out of the checkpoint, to " +
                            printable(end->string(), 1000),
                        "put the file itself there");
        }
    }
}

}  // namespace

ZarrArray parse_zarray(const std::string& text) {
    const json root = parse_json<nlohmann::json>(text);
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, "is not a JSON object");
    }
    require_plain(root);
    ZarrArray array{dtype_of(root), extents_of(root, "shape"), extents_of(root, "chunks")};
    if (array.shape.size() != array.chunks.size()) {
        throw Error(ErrorCode::corrupt, "shape " + shape_text(array.shape) + " and chunks " +
                                            shape_text(array.chunks) +
                                            " have different numbers of axes");
    }
    if (array.shape.size() > layout::kMaxAxes) {
        throw Error(ErrorCode::unsupported, "shape " + shape_text(array.shape) + " has more than " +
                                                std::to_string(layout::kMaxAxes) + " axes");
    }
    volume_of(array.shape, "the shape in .zarray");
    volume_of(array.chunks, "the chunks in .zarray");
    for (const std::size_t k : indices(array.shape)) {
        if (array.chunks[k] == 0 && array.shape[k] != 0) {
            throw Error(ErrorCode::corrupt, "chunks " + shape_text(array.chunks) +
                                                " cannot tile shape " + shape_text(array.shape));
        }
    }
    return array;
}

bool is_chunk_name(std::string_view file) {
    const auto parts = split(file, '.');
    return std::ranges::all_of(parts, [](std::string_view part) {
        return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    });
}

Catalogue read_zarr_array(const fs::path& directory, const std::string& name) {
    const ZarrArray array =
        parse_zarray(io::read_text(directory / name / kArrayFile, kLargestArrayFile));
    const std::vector<Index> grid = grid_of(array);
    const Bytes chunk_bytes =
        checked_mul_bytes(to_bytes(volume_of(array.chunks, "chunks"), "chunks"),
                          size_of(array.dtype), "bytes of a chunk");
    Catalogue out;
    Tensor tensor{name, array.dtype, array.shape, {}};
    std::set<std::vector<Index>> found;
    const Listing listing = list_directory(directory / name);
    require_own(directory, name, listing);
    for (const std::string& file : listing.files) {
        if (!is_chunk_name(file)) {
            continue;
        }
        const std::vector<Index> at = place_of(file, grid);
        const Bytes size = size_on_disk(directory / name / file);
        if (size != chunk_bytes) {
            throw Error(ErrorCode::corrupt, "chunk file " + file + " is " + std::to_string(size) +
                                                " bytes, expected " + std::to_string(chunk_bytes) +
                                                " for chunks of " + shape_text(array.chunks));
        }
        Piece piece = piece_of(array, at);
        piece.file = static_cast<std::uint32_t>(out.files.size());
        piece.storage_bytes = size;
        found.insert(at);
        tensor.pieces.push_back(piece);
        out.files.push_back({(fs::path(name) / file).string(), size});
    }
    const Index n_chunks = volume_of(grid, "the number of chunks");
    if (std::cmp_not_equal(found.size(), n_chunks)) {
        report_missing(found, grid, n_chunks);
    }
    out.tensors.push_back(std::move(tensor));
    return out;
}

}  // namespace shardweld::formats::megatron
