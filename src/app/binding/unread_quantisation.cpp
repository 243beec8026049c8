#include "unread_quantisation.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "catalogue/catalogue.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// What stands beside a weight of integers, instead of its last `weight`, and whose weights have
/// that.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kCompanions = {
    {{"scales", "mlx"}, {"weight_scale", "BitNet"}}};

constexpr std::string_view kWeightEnding = ".weight";

std::string by_names(std::string_view library) {
    return std::string(library) + " by its names";
}

}  // namespace

std::string quantisation_text(const models::Config& config, const std::string& otherwise) {
    for (const char* field : {"quantization_config.quant_method", "compression_config.quant_method",
                              "quantization_config.quant_algo"}) {
        if (const auto method = config.text(field)) {
            return "the quantisation " + printable(*method) + " (config.json, " + field + ")";
        }
    }
    return "a quantisation, " + otherwise;
}

QuantisationTrace named_trace(const catalogue::Catalogue& catalogue) {
    for (const std::string* const name : catalogue::distinct_names(catalogue)) {
        for (const NameRule& rule : name_rules().traces) {
            if (std::ranges::any_of(rule.patterns,
                                    [&](auto ending) { return name->ends_with(ending); })) {
                return {*name, by_names(rule.what)};
            }
        }
    }
    return {};
}

QuantisationTrace integer_trace(const catalogue::Catalogue& catalogue) {
    const auto is_stored = [&](const std::string& name) {
        return std::ranges::any_of(catalogue.tensors,
                                   [&](const auto& one) { return one.name == name; });
    };
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        const bool is_weight = tensor.name.ends_with(kWeightEnding) && tensor.shape.size() >= 2;
        if (!is_weight || is_float(tensor.dtype) || tensor.dtype == DType::i8) {
            continue;
        }
        const std::string stem =
            tensor.name.substr(0, tensor.name.size() - kWeightEnding.size() + 1);
        for (const auto& [ending, library] : kCompanions) {
            if (is_stored(stem + std::string(ending))) {
                return {tensor.name, by_names(library)};
            }
        }
        return {tensor.name, "by its type"};
    }
    return {};
}

void refuse_unread(const models::Config& config, const QuantisationTrace& trace) {
    throw Error(ErrorCode::unsupported,
                printable(trace.tensor) + " belongs to " +
                    quantisation_text(config, trace.library) + ", which is not read",
                "dequantise the model with the library that made it, and merge that; --names "
                "module without --dtype copies what is stored")
        .add_context("file " + config.origin());
}

}  // namespace shardweld::app
