#include "encoding.hpp"

#include "core/lists.hpp"
#include "shardweld/error.hpp"

namespace shardweld {

namespace {

constexpr Index kByteBits = 8;

Index parts(Index whole, Index part) {
    return whole / part + (whole % part != 0 ? 1 : 0);
}

template <typename Is>
std::optional<Encoding> encoding_where(const Is& is) {
    auto* const at = find_where(all_encodings(), is);
    return at == nullptr ? std::nullopt : std::optional(at->encoding);
}

}  // namespace

Index EncodingFacts::code_columns(Index columns) const {
    if (is_ggml()) {
        return checked_mul(columns / tile_columns, static_cast<Index>(block_bytes / size_of(codes)),
                           "a row of blocks");
    }
    return parts(checked_mul(columns, code_bits, "a row of codes"),
                 kByteBits * static_cast<Index>(size_of(codes)));
}

Index EncodingFacts::scale_rows(Index rows) const {
    return parts(rows, tile_rows);
}

Index EncodingFacts::scale_columns(Index columns) const {
    return is_ggml() ? 0 : tile_columns == 0 ? 1 : parts(columns, tile_columns);
}

std::string EncodingFacts::refusal(Index rows, Index columns) const {
    if (tile_columns != 0 && columns % tile_columns != 0) {
        return std::to_string(columns) + " columns are no multiple of " +
               std::to_string(tile_columns);
    }
    if (!takes_part_rows && rows % tile_rows != 0) {
        return std::to_string(rows) + " rows are no multiple of " + std::to_string(tile_rows);
    }
    return "";
}

const EncodingFacts& facts_of(Encoding encoding) {
    const auto at = as_size(encoding);
    if (at >= all_encodings().size()) {
        throw Error(ErrorCode::internal, "an encoding out of range");
    }
    return all_encodings()[at];
}

std::optional<Encoding> encoding_from(std::string_view name) {
    return encoding_where([&](const EncodingFacts& facts) {
        return facts.name == name || (!facts.alias.empty() && facts.alias == name);
    });
}

std::optional<Encoding> ggml_type_of(DType values) {
    return encoding_where([&](const EncodingFacts& facts) {
        return facts.is_ggml() && facts.tile_columns == 1 && facts.codes == values;
    });
}

std::vector<std::string> encoding_names() {
    auto names = collect_list<std::string>(all_encodings(), &EncodingFacts::name);
    return names;
}

}  // namespace shardweld
