#include "respelled.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/peft_names.hpp"
#include "adapters/separate.hpp"
#include "catalogue/catalogue.hpp"

namespace shardweld::app {

namespace {

using WeightNames = std::set<std::string>;

// Beginnings of one name of the base; more are no spelling of a model that was trained.
constexpr std::size_t kMostBeginnings = 16;

std::string respelled(const std::string& name, const Respelling& way) {
    return name.starts_with(way.from) ? way.to + name.substr(way.from.size()) : name;
}

/// The names of the base as the family has them.
class BaseNames {
  public:
    BaseNames(const HeldModel& prepared, const catalogue::Catalogue& catalogue)
        : recipe_(*prepared.recipe) {
        catalogue::each_name(catalogue, [&](const std::string& stored) {
            const adapters::PeftName name = adapters::read_name(stored);
            if (name.role == adapters::TensorRole::base && !stored.starts_with(adapters::kPrefix)) {
                names_.insert(plan::renamed(recipe_, stored));
            }
        });
        // One of a tied pair is stored for both.
        for (const models::SameRule& rule :
             names_.empty() ? std::vector<models::SameRule>() : recipe_.same) {
            for (const models::Line& line : recipe_.hub) {
                if (line.logical == rule.a || line.logical == rule.b) {
                    names_.insert(line.name.text);
                }
            }
        }
    }

    [[nodiscard]] bool empty() const { return names_.empty(); }

    /// Whether there is such a weight, or something below its module: experts may be in one tensor.
    [[nodiscard]] bool has_weight(const std::string& weight) const {
        const std::string name = plan::renamed(recipe_, weight);
        const std::string module = name.substr(0, name.rfind('.') + 1);
        const auto below = names_.lower_bound(module);
        return names_.contains(name) || (below != names_.end() && below->starts_with(module));
    }

    /// The ways to spell the beginning of a name so that the base has one with the longest end.
    [[nodiscard]] std::vector<Respelling> ways_for(const std::string& weight) const {
        std::vector<Respelling> ways;
        for (std::size_t at = 0; at != std::string::npos && ways.empty();) {
            const std::string end = weight.substr(at);
            for (const std::string& name : names_) {
                if (name == end || name.ends_with("." + end)) {
                    ways.push_back(
                        {weight.substr(0, at), name.substr(0, name.size() - end.size())});
                }
            }
            at = weight.find('.', at);
            at += at == std::string::npos ? 0 : 1;
        }
        return ways;
    }

  private:
    const models::Recipe& recipe_;
    WeightNames names_;
};

/// WeightNames and what they become; nullopt where some become none of the base's, or one of
/// another's.
std::optional<WeightNames> images(const WeightNames& weights, const Respelling& way,
                                  const BaseNames& base) {
    WeightNames found;
    for (const std::string& weight : weights) {
        const std::string name = respelled(weight, way);
        if (!base.has_weight(name) || !found.insert(name).second) {
            return std::nullopt;
        }
    }
    return found;
}

/// The one way in which the base has all names; nullopt: there is none, or several.
std::optional<Respelling> only_way(const WeightNames& weights, const std::string& unknown,
                                   const BaseNames& base) {
    const std::vector<Respelling> ways = base.ways_for(unknown);
    if (ways.size() > kMostBeginnings) {
        return std::nullopt;
    }
    std::optional<std::pair<Respelling, WeightNames>> found;
    for (const Respelling& way : ways) {
        auto all = images(weights, way, base);
        if (all && found && *all != found->second) {
            return std::nullopt;
        }
        if (all && !found) {
            found.emplace(way, std::move(*all));
        }
    }
    return found ? std::optional(found->first) : std::nullopt;
}

/// Renames what is the adapter's.
void respell_all(catalogue::Catalogue& catalogue, const Respelling& way) {
    const std::string_view prefix = adapters::kPrefix;
    catalogue::each_item(catalogue, [&](auto& item) {
        const std::string name = item.name;
        if (name.starts_with(prefix)) {
            item.name = std::string(prefix) + respelled(name.substr(prefix.size()), way);
        }
    });
    std::ranges::stable_sort(catalogue.tensors, {}, &catalogue::Tensor::name);
}

}  // namespace

std::vector<Respelling> take_base_names(const HeldModel& prepared,
                                        catalogue::Catalogue& catalogue) {
    const WeightNames weights = adapters::changed_weights(catalogue).by_factors;
    const BaseNames base(prepared, catalogue);
    auto* const unknown =
        find_where(weights, [&](const std::string& weight) { return !base.has_weight(weight); });
    if (base.empty() || prepared.framework != nullptr || unknown == nullptr) {
        return {};
    }
    if (const auto way = only_way(weights, *unknown, base)) {
        respell_all(catalogue, *way);
        return {*way};
    }
    return {};
}

std::string original_path(const std::vector<Respelling>& respelled, const std::string& path) {
    std::string original = path;
    for (const Respelling& way : respelled) {
        if (original.starts_with(way.to)) {
            original = way.from + original.substr(way.to.size());
        }
    }
    return original;
}

}  // namespace shardweld::app
