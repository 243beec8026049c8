#include "score_head.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kOwnName = "score.weight";
constexpr const char* kLanguageHead = "lm_head.weight";
constexpr const char* kLogical = "score";  // what dialects and recipes call it

using SeeTensor = std::function<void(const std::string& name, const std::vector<Index>& shape)>;

void for_each_stored(const catalogue::Catalogue& catalogue, const SeeTensor& see) {
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        see(tensor.name, tensor.shape);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        see(shard.name, shard.shape);
    }
}

ScoreHead in_module_tree(const catalogue::Catalogue& catalogue) {
    ScoreHead head;
    bool has_other = false;
    int n_parts = 0;
    for_each_stored(catalogue, [&](const std::string& name, const std::vector<Index>& shape) {
        has_other = has_other || name.ends_with(kLanguageHead);
        if (name == kOwnName) {
            ++n_parts;
            head.rows = shape.empty() ? std::nullopt : std::optional(shape[0]);
        }
    });
    if (n_parts > 1) {
        head.rows.reset();  // cut into plain shards
    }
    if (n_parts > 0 && !has_other) {
        head.evidence = "the checkpoint holds score.weight and no language-model head";
    }
    return head;
}

ScoreHead in_framework(const catalogue::Catalogue& catalogue, const models::Dialect& dialect) {
    ScoreHead head;
    for_each_stored(catalogue, [&](const std::string& name, const std::vector<Index>& shape) {
        const auto is_head = [&](const models::Line& line) {
            return line.logical == kLogical && line.name.match(name).has_value();
        };
        if (!shape.empty() && shape[0] == 1 &&
            std::any_of(dialect.store.begin(), dialect.store.end(), is_head)) {
            head.evidence = "the checkpoint's " + name + " has one row";
        }
    });
    return head;
}

}  // namespace

ScoreHead find_score_head(const catalogue::Catalogue& catalogue, const models::Dialect& dialect) {
    return dialect.has_own_names ? in_module_tree(catalogue) : in_framework(catalogue, dialect);
}

}  // namespace shardweld::app
