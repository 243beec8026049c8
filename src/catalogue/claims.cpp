#include "claims.hpp"

#include "core/text.hpp"

namespace shardweld::catalogue {

std::string claim_text(Index value) {
    return std::to_string(value);
}

std::string claim_text(std::optional<Index> value) {
    return value ? claim_text(*value) : "absent";
}

std::string claim_text(DType value) {
    return safetensors_name(value);
}

std::string claim_text(const std::string& value) {
    return printable(value);
}

std::string claim_text(const std::vector<Index>& shape) {
    return shape_text(shape);
}

std::string contradiction(const std::string& key, const std::string& a, const std::string& by_a,
                          const std::string& b, const std::string& by_b) {
    return printable(key) + " is " + a + " in " + printable(by_a) + " but " + b + " in " +
           printable(by_b);
}

void require_at_most(const std::string& key, Index found, Index stated, const std::string& by,
                     const char* hint) {
    if (found > stated) {
        throw Error(ErrorCode::mismatch,
                    contradiction(key, claim_text(stated), by, claim_text(found), "the files"),
                    hint);
    }
}

std::vector<Index> not_covered(const std::set<Index>& stated, Index first, Index last,
                               std::size_t most) {
    std::vector<Index> missing;
    for (Index number = first; number <= last && missing.size() < most; ++number) {
        if (!stated.contains(number)) {
            missing.push_back(number);
        }
    }
    return missing;
}

Error same_part(std::string_view a, std::string_view b, const std::string& part, const char* hint) {
    return {ErrorCode::mismatch, printable(a) + " and " + printable(b) + " are " + part, hint};
}

}  // namespace shardweld::catalogue
