#include "join_scans.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "catalogue/catalogue.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::dcp {

namespace {

using catalogue::Catalogue;
using catalogue::Piece;
using catalogue::Tensor;

struct ByNature {
    bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};
using FileNumbers = std::map<std::string, std::uint32_t, ByNature>;

FileNumbers number_files(const std::vector<Scan>& scans, Catalogue& out) {
    std::map<std::string, Bytes, ByNature> sizes;
    for (const Catalogue& scan : scans) {
        for (const auto& file : scan.files) {
            sizes[file.path] = std::max(sizes[file.path], file.size);
        }
    }
    FileNumbers numbers;
    for (const auto& [path, size] : sizes) {
        numbers[path] = static_cast<std::uint32_t>(out.files.size());
        out.files.push_back({path, size});
    }
    return numbers;
}

void require_same(const Tensor& a, const Tensor& b, Shapes shapes) {
    if (a.dtype != b.dtype) {
        throw Error(ErrorCode::mismatch,
                    "tensor " + printable(a.stored_as) + " is " + std::string(torch_name(a.dtype)) +
                        " and " + std::string(torch_name(b.dtype)) + " in files of different ranks",
                    kOneSave);
    }
    if (a.shape.size() != b.shape.size() || (shapes == Shapes::stated && a.shape != b.shape)) {
        throw Error(ErrorCode::mismatch,
                    "tensor " + printable(a.stored_as) + " has shape " + shape_text(a.shape) +
                        " and " + shape_text(b.shape) + " in files of different ranks",
                    kOneSave);
    }
}

void merge(Tensor tensor, Shapes shapes, Tensor& into) {
    require_same(into, tensor, shapes);
    for (std::size_t k = 0; k < into.shape.size(); ++k) {
        into.shape[k] = std::max(into.shape[k], tensor.shape[k]);
    }
    into.pieces.insert(into.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
}

// Elements of the primary pieces; overlaps count twice.
Index elements_held(const Tensor& tensor) {
    Index held = 0;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0) {
            held = checked_add(held, piece.patch.volume(), "elements of a tensor");
        }
    }
    return held;
}

}  // namespace

Catalogue join(std::vector<Scan> scans, Shapes shapes) {
    Catalogue out;
    const FileNumbers numbers = number_files(scans, out);
    std::map<std::string, Tensor> tensors;
    IgnoredRows ignored;
    for (Catalogue& scan : scans) {
        ignored.add(scan.ignored);
        std::move(scan.statements.begin(), scan.statements.end(),
                  std::back_inserter(out.statements));
        for (const auto& [global, count] : scan.inert_globals) {
            out.inert_globals[global] += count;
        }
        for (Tensor& tensor : scan.tensors) {
            for (Piece& piece : tensor.pieces) {
                piece.file = numbers.at(scan.files.at(piece.file).path);
            }
            const auto [at, is_new] = tensors.try_emplace(tensor.name);
            if (is_new) {
                at->second = std::move(tensor);
            } else {
                merge(std::move(tensor), shapes, at->second);
            }
        }
    }
    for (auto& [name, tensor] : tensors) {
        number_replicas(tensor.pieces);
        out.tensors.push_back(std::move(tensor));
    }
    out.ignored = ignored.take();
    return out;
}

void require_complete(const Catalogue& catalogue, const std::string& missing_hint) {
    for (const Tensor& tensor : catalogue.tensors) {
        const Index held = elements_held(tensor);
        const Index volume = volume_of(tensor.shape, "a tensor's shape");
        if (held < volume && !missing_hint.empty()) {
            throw Error(ErrorCode::not_found,
                        "tensor " + printable(tensor.stored_as) +
                            " is not complete: the files hold " + std::to_string(held) +
                            " of its " + std::to_string(volume) + " elements",
                        missing_hint);
        }
        check_tiling(tensor);
    }
}

void require_all_numbers(std::vector<Index> numbers, Index first, const std::string& before,
                         const std::string& after) {
    std::sort(numbers.begin(), numbers.end());
    std::vector<std::string> missing;
    Index next = first;
    for (const Index number : numbers) {
        // Numbers come from names and may be anything: name a few.
        for (; next < number && missing.size() < 3; ++next) {
            missing.push_back(before + std::to_string(next) + after);
        }
        next = number + 1;
    }
    if (!missing.empty()) {
        throw Error(ErrorCode::not_found, "files of some ranks are missing: " + name_list(missing),
                    "copy the files of all ranks; if the save was cut short, take an earlier one");
    }
}

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::corrupt, std::string(kShardingInfo) + ": " + what);
}

std::vector<Index> offsets_of(const std::string& name, const Json& entry) {
    const std::string what = "tensor " + printable(name) + " has no list of saved_offsets";
    const auto list = entry.is_object() ? entry.find("saved_offsets") : entry.end();
    if (!entry.is_object() || list == entry.end() || !list->is_array()) {
        refuse(what);
    }
    std::vector<Index> offsets;
    for (const Json& value : *list) {
        if (!value.is_number_unsigned()) {
            refuse(what + " from 0");
        }
        offsets.push_back(to_index(value.get<Bytes>(), "saved_offsets"));
    }
    return offsets;
}

}  // namespace

ShardOffsets parse_sharding_info(const std::string& json) {
    const auto root = parse_json<nlohmann::json>(json);
    if (!root.is_object()) {
        refuse("it is not a JSON object");
    }
    ShardOffsets offsets;
    for (const auto& [name, entry] : root.items()) {
        offsets.emplace(name, offsets_of(name, entry));
    }
    return offsets;
}

}  // namespace shardweld::formats::dcp
