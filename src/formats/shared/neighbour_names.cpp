#include "neighbour_names.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

bool could_hold_weights(std::string_view name) {
    const std::string lower = in_small_letters(name);
    const auto is_copy = [&](std::string_view pattern) {
        return matches(std::string(pattern) + ".*", lower) ||
               matches(std::string(pattern) + "~*", lower);
    };
    return is_known_as(lower, "container of weights") ||
           (!is_known_as(lower, "about a file") &&
            std::ranges::any_of(known_words("container of weights"), is_copy));
}

bool is_hf_model(const Listing& listing) {
    return fits(rule_of(name_rules().seen, "huggingface"), listing);
}

namespace {

/// "Optimizers_0", "optim_state_dict", "rng_states" -> "optimizer", "optim", "rng".
std::string stem_of(std::string_view key) {
    std::string stem = in_small_letters(key);
    const auto digits = stem.find_last_not_of("0123456789");
    if (digits != std::string::npos && stem[digits] == '_') {
        stem.resize(digits);
    }
    for (const std::string_view end : {"_state_dict", "_states", "_state", "s"}) {
        if (stem.size() > end.size() && stem.ends_with(end)) {
            stem.resize(stem.size() - end.size());
        }
    }
    return stem;
}

}  // namespace

bool is_training_number(std::string_view key) {
    return std::ranges::any_of(split(key, '_'), [](std::string_view word) {
        return is_known_as(word, "counted or measured");
    });
}

bool is_training_only(std::string_view key) {
    return is_known_as(stem_of(key), "training");
}

bool is_training_key(std::string_view key) {
    return is_training_only(key) || is_known_as(stem_of(key), "perhaps training");
}

namespace {

constexpr const char* kWeights =
    "give the directory of the weights: it usually lies beside this one, as pytorch_model_fsdp_0, "
    "model or weights";
constexpr std::size_t kMostRows = 3;

bool is_of_optimizer(const Ignored& row) {
    return has_part(row.pattern, "optim");
}

/// The largest rows: "optimizer* (24 entries, 172.1 kB)".
std::string text_of(std::vector<Ignored> rows) {
    std::ranges::stable_sort(rows, std::ranges::greater{}, &Ignored::bytes);
    rows.resize(std::min(rows.size(), kMostRows));
    return joined(rows, ", ", [](const Ignored& row) {
        return row.pattern + " (" + std::to_string(row.count) + " entries, " +
               human_bytes(row.bytes) + ")";
    });
}

}  // namespace

void refuse_only_state(const std::string& where, const Catalogue& catalogue,
                       const std::string& hint) {
    const auto& rows = catalogue.ignored;
    const bool is_optimizer = std::ranges::any_of(rows, is_of_optimizer);
    throw Error(ErrorCode::not_found,
                where + " holds only " + (is_optimizer ? "optimizer" : "training") +
                    " state and no weights: " + (rows.empty() ? "nothing" : text_of(rows)),
                hint.empty() ? kWeights : hint);
}

std::optional<Bytes> size_of(const Location& location, const Neighbour& neighbour) {
    if (neighbour.bytes > 0) {
        return neighbour.bytes;
    }
    std::error_code failed;
    const auto bytes = fs::file_size(location.directory / neighbour.path, failed);
    return failed ? std::nullopt : std::optional<Bytes>(bytes);
}

}  // namespace shardweld::formats
