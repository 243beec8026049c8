#include "rules.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/regex.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

#include "affine_map.hpp"
#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Tensor;

constexpr std::size_t kMostExpressions = 1000;

/// "^model\.norm\.weight$" as the name it stands for; nullopt for an expression that matches more.
std::optional<std::string> literal_of(std::string_view pattern) {
    if (!pattern.starts_with('^') || !pattern.ends_with('$')) {
        return std::nullopt;
    }
    std::string name;
    for (std::size_t i = 1; i + 1 < pattern.size(); ++i) {
        const bool is_escaped = pattern[i] == '\\' && i + 2 < pattern.size();
        const char c = pattern[is_escaped ? ++i : i];
        const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        if (is_escaped ? is_word && c != '_' : !is_word && c != '-') {
            return std::nullopt;
        }
        name.push_back(c);
    }
    return name;
}

/// Which parameters a pattern means: Python's re.match, from the beginning on.
class Names {
  public:
    explicit Names(const Shapes& shapes) : shapes_(shapes) {}

    [[nodiscard]] std::vector<const Shapes::value_type*> meant_by(const PickleValue& pattern) {
        std::vector<const Shapes::value_type*> found;
        const std::string text(pattern.text());
        if (const auto name = literal_of(text)) {
            if (const auto at = shapes_.find(*name); at != shapes_.end()) {
                found.push_back(&*at);
            }
            return found;
        }
        if (++n_expressions_ > kMostExpressions) {
            throw Error(ErrorCode::unsupported, "its universal_checkpoint_info has more than " +
                                                    std::to_string(kMostExpressions) +
                                                    " expressions");
        }
        const Regex expression("^(?:" + text + ")");
        for (const Shapes::value_type& shape : shapes_) {
            if (expression.is_found_in(shape.first)) {
                found.push_back(&shape);
            }
        }
        return found;
    }

  private:
    const Shapes& shapes_;
    std::size_t n_expressions_ = 0;
};

/// The first rule of each parameter counts.
class Rules {
  public:
    explicit Rules(const Shapes& shapes) : names_(shapes) {}

    void add_affine(const PickleValue& map, Index rank) {
        const PickleValue* const parameters = present(map, "params");
        for (std::size_t i = 0; parameters != nullptr && i < parameters->pair_count(); ++i) {
            for (const auto* const parameter : names_.meant_by(parameters->key(i))) {
                if (!rules_.contains(parameter->first)) {
                    rules_[parameter->first] = affine_rule(parameters->value(i), rank,
                                                           parameter->first, parameter->second);
                }
            }
        }
    }

    void add_patterns(const PickleValue& info, const char* list, const char* placement) {
        const PickleValue* const patterns = present(info, list);
        if (patterns == nullptr) {
            return;
        }
        for (const PickleValue* const pattern : patterns->elements()) {
            for (const auto* const parameter : names_.meant_by(*pattern)) {
                add_plain(parameter->first, placement);
            }
        }
    }

    void add_plain(const std::string& name, const char* placement) {
        Tensor rule;
        rule.name = name;
        rule.placement = placement;
        rules_.try_emplace(name, std::move(rule));
    }

    void move_to(std::vector<Tensor>& tensors) {
        for (auto& [name, rule] : rules_) {
            tensors.push_back(std::move(rule));
        }
    }

  private:
    Names names_;
    std::map<std::string, Tensor> rules_;
};

constexpr const char* kConvert =
    "convert it with DeepSpeed's ds_to_universal.py and merge what that makes";

// What DeepSpeed itself cannot join, by pattern, with its reason.
void refuse_unsupported(const PickleValue& info) {
    const PickleValue* const patterns = present(info, "autotp_unsupported_parameter_patterns");
    if (patterns != nullptr && patterns->is_mapping() && patterns->pair_count() > 0) {
        throw Error(ErrorCode::unsupported,
                    "its universal_checkpoint_info says that the parts of " +
                        printable(patterns->key(0).text()) +
                        " cannot be joined: " + printable(patterns->value(0).text(), 200),
                    "save it from the run with DeepSpeed's save_16bit_model");
    }
}

// Only the map says how parts of fused parameters lie in it.
void refuse_unmapped(const PickleValue& info) {
    for (const char* const list :
         {"parameter_with_sub_params", "parameter_with_2_sub_params_cat_dim_0"}) {
        const PickleValue* const patterns = present(info, list);
        if (patterns != nullptr && !patterns->elements().empty()) {
            throw Error(ErrorCode::unsupported,
                        std::string("its universal_checkpoint_info has ") + list +
                            " but no affine_map, without which fused parameters are not joined",
                        kConvert);
        }
    }
}

}  // namespace

void add_rules(const PickleValue& info, Index rank, const Shapes& shapes,
               catalogue::Catalogue& out) {
    refuse_unsupported(info);
    Rules rules(shapes);
    if (const PickleValue* const map = present(info, "affine_map")) {
        rules.add_affine(*map, rank);
    } else {
        refuse_unmapped(info);
    }
    constexpr std::array<std::pair<const char*, const char*>, 4> kLists = {
        {{"tp_replicated_parameter_patterns", kRuleReplicated},
         {"parameter_to_average_patterns", kRuleReplicated},
         {"parameter_with_row_parallelism_patterns", kRuleColumns},
         {"vocabulary_parameter_patterns", kRuleRows}}};
    for (const auto& [list, placement] : kLists) {
        rules.add_patterns(info, list, placement);
    }
    for (const auto& [name, shape] : shapes) {
        rules.add_plain(name, kRuleRows);
    }
    rules.move_to(out.tensors);
}

}  // namespace shardweld::formats::deepspeed
