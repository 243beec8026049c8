#include "json_parts.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "core/json.hpp"

namespace shardweld::app {

using nlohmann::ordered_json;

nlohmann::json parse_json(const std::string& text) {
    return shardweld::parse_json<nlohmann::json>(without_nonfinite(text));
}

ordered_json json_of(const numeric::Quality& quality, const std::string& encoding) {
    return {{"encoding", encoding},
            {"relative_error", quality.relative_error()},
            {"saturated", quality.n_saturated},
            {"zeroed", quality.n_zeroed},
            {"worst_tile",
             {{"row", quality.worst.row},
              {"column", quality.worst.column},
              {"relative_error", quality.worst.error}}}};
}

ordered_json json_of(const TensorEntry& tensor) {
    ordered_json json = {
        {"name", tensor.name},     {"dtype", std::string(torch_name(tensor.dtype))},
        {"shape", tensor.shape},   {"file", tensor.file},
        {"offset", tensor.offset}, {"bytes", tensor.bytes}};
    json["xxh3_128"] = tensor.digest.empty() ? ordered_json() : ordered_json(tensor.digest);
    json["sources"] = tensor.sources;
    if (tensor.block != 0) {
        json["xxh3_block"] = tensor.block;
    }
    if (tensor.quality) {
        json["quantised"] = json_of(*tensor.quality, tensor.encoding);
    }
    return json;
}

ordered_json json_of(const catalogue::Ignored& ignored) {
    return {{"pattern", ignored.pattern},
            {"reason", ignored.reason},
            {"count", ignored.count},
            {"bytes", ignored.bytes}};
}

ordered_json json_of(const catalogue::Provenance& provenance) {
    return {{"standing", catalogue::name_of(provenance.standing)},
            {"evidence", provenance.evidence}};
}

ordered_json json_of(const plan::Ledger& ledger) {
    return {{"stored", ledger.stored},
            {"consumed", ledger.consumed},
            {"replica", ledger.replica},
            {"padding", ledger.padding},
            {"ignored", json_list(ledger.ignored)}};
}

ordered_json json_of(const MixedInput& input) {
    return {{"dir", input.directory},
            {"format", input.format},
            {"facts", ordered_json(input.facts)},
            {"files", input.n_files},
            {"bytes", input.bytes},
            {"provenance", json_of(input.provenance)},
            {"is_base", input.is_base},
            {"weight", input.weight},
            {"ledger", json_of(input.ledger)}};
}

ordered_json json_of(const plan::Warning& warning) {
    return {{"code", warning.code}, {"tensor", warning.tensor}, {"text", warning.text}};
}

ordered_json json_of(const FileEntry& file) {
    ordered_json json = {{"name", file.name}, {"bytes", file.bytes}};
    json["sha256"] = file.sha256.empty() ? ordered_json() : ordered_json(file.sha256);
    return json;
}

ordered_json json_of(const OddTensor& tensor) {
    return {{"name", tensor.name},
            {"nan", tensor.n_nan},
            {"inf", tensor.n_inf},
            {"all_zero", tensor.is_zero},
            {"constant", tensor.is_constant},
            {"mostly_zero", tensor.is_mostly_zero}};
}

ordered_json json_of(const Sanity& sanity) {
    return {{"checked", sanity.is_checked}, {"tensors", json_list(sanity.tensors)}};
}

ordered_json json_of(const BaseSummary& base) {
    ordered_json json = {{"dir", base.directory},
                         {"compared", base.n_compared},
                         {"equal", base.n_equal},
                         {"max_abs", base.max_absolute}};
    // JSON has no infinity.
    if (std::isinf(base.max_absolute)) {
        json["max_abs"] = "inf";
    }
    json["max_tensor"] = base.max_tensor.empty() ? ordered_json() : ordered_json(base.max_tensor);
    json["extra"] = base.extra;
    json["missing"] = base.missing;
    json["shapes"] = base.shapes;
    return json;
}

ordered_json quotas_json(const std::optional<std::vector<std::string>>& quotas) {
    return quotas && !quotas->empty() ? ordered_json(*quotas) : ordered_json();
}

template <typename T>
ordered_json json_list(const std::vector<T>& values) {
    ordered_json list = ordered_json::array();
    for (const T& value : values) {
        list.push_back(json_of(value));
    }
    return list;
}

template ordered_json json_list(const std::vector<TensorEntry>& values);
template ordered_json json_list(const std::vector<catalogue::Ignored>& values);
template ordered_json json_list(const std::vector<plan::Warning>& values);
template ordered_json json_list(const std::vector<OddTensor>& values);
template ordered_json json_list(const std::vector<FileEntry>& values);
template ordered_json json_list(const std::vector<MixedInput>& values);

std::string json_text(const ordered_json& json) {
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shardweld::app
