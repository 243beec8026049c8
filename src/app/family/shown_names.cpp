#include "shown_names.hpp"

#include <algorithm>
#include <string_view>

#include "formats/format.hpp"
#include "models/verification.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

bool is_shown(const models::Recipe& recipe, const models::Dialect& dialect) {
    const auto all = models::verifications_of(recipe);
    return std::ranges::any_of(all, [&](const models::Verification& one) {
        const formats::Format* const format = formats::find_format(one.format);
        const std::string_view names = format == nullptr ? one.format : format->dialect;
        return one.level == models::Verified::files && (names.empty() || names == dialect.name);
    });
}

void require_shown(const models::RecipeLibrary& library, const models::Recipe& recipe,
                   const models::Dialect& dialect) {
    if (!library.can_meet(recipe, dialect)) {
        throw Error(ErrorCode::unsupported,
                    "the family " + recipe.name + " has no names in Megatron's checkpoints",
                    "write --to fsdp or --to dcp, or give a recipe that uses " + dialect.name);
    }
    if (!dialect.has_own_names && !is_shown(recipe, dialect)) {
        throw Error(ErrorCode::unsupported,
                    "no checkpoint of Megatron's has shown the names of the family " + recipe.name +
                        ", and names are never guessed",
                    "write --to fsdp or --to dcp, or like a checkpoint of the training framework "
                    "with --like; a recipe of your own says with `verified by` what it was "
                    "compared with");
    }
}

}  // namespace shardweld::app
