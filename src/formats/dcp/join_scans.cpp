#include "join_scans.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "catalogue/claims.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::dcp {

namespace {}  // namespace

Catalogue join(std::vector<Scan> scans, Shapes shapes) {
    Catalogue out;
    Assembler all(out, {}, shapes);
    std::vector<ToldOptimizer> optimizers;
    for (Catalogue& scan : scans) {
        const std::uint32_t file = all.add_scan(scan);
        optimizers.push_back({"the metadata of rank " + std::to_string(optimizers.size()),
                              std::move(scan.optimizer)});
        out.warnings.merge(scan.warnings);
        for (Tensor& tensor : scan.tensors) {
            all.add(std::move(tensor), file);
        }
    }
    all.finish();
    join_optimizers(shapes, std::move(optimizers), out);
    order_files(out, Unused::kept);
    catalogue::each_tensor(out, [](Tensor& tensor) { number_replicas(tensor.pieces); });
    return out;
}

void require_complete(const Catalogue& catalogue, const std::string& missing_hint) {
    catalogue::each_tensor(catalogue, [&](const Tensor& tensor) {
        const CoverFault fault = find_cover_fault(tensor);
        const Index volume = volume_of(tensor.shape, "a tensor's shape");
        if (fault.held < volume && !missing_hint.empty()) {
            throw Error(ErrorCode::not_found,
                        "tensor " + printable(tensor.stored_as) +
                            " is not complete: the files hold " + std::to_string(fault.held) +
                            " of its " + std::to_string(volume) + " elements",
                        missing_hint);
        }
        check_tiling(tensor, fault);
    });
}

void require_all_numbers(const std::set<Index>& numbers, Index first, const std::string& before,
                         const std::string& after) {
    // Numbers come from names and may be anything: name a few.
    const auto missing =
        collect_list(catalogue::not_covered(numbers, first, *numbers.rbegin(), 3),
                     [&](Index number) { return before + std::to_string(number) + after; });
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
