#include "left_out.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "as_stored.hpp"

namespace shardweld::plan {

const models::IgnoreRule* left_out(const models::Recipe& recipe, const std::string& logical) {
    const auto rule = std::ranges::find_if(recipe.left_out, [&](const models::IgnoreRule& one) {
        return std::ranges::any_of(
            one.globs, [&](const std::string& glob) { return glob_matches(glob, logical); });
    });
    return rule == recipe.left_out.end() ? nullptr : &*rule;
}

void leave_out(std::vector<catalogue::Tensor>& others, const Model& model, Ledger& ledger) {
    std::vector<std::string> unknown;
    for (const catalogue::Tensor& tensor : others) {
        if (passes_unlisted(*model.recipe, tensor.name)) {
            ledger.ignore(tensor.name, "not in the written form of the model",
                          catalogue::stored_bytes(tensor));
        } else {
            unknown.push_back(tensor.name);
        }
    }
    if (!unknown.empty()) {
        throw Error(ErrorCode::unsupported,
                    std::to_string(unknown.size()) +
                        " tensor(s) have no place in the form that a " + model.recipe->name +
                        " model is written in: " + listed(unknown),
                    "write safetensors, or give the config.json of the model that was trained");
    }
    others.clear();
}

}  // namespace shardweld::plan
