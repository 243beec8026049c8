#include "framework_adapter.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/adapters/stored_pieces.hpp"
#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "vocabulary_padding.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

constexpr const char* kModuleDialect = "hf_module";

/// "X.adapter.adapter_q.linear_in.weight" for "X.adapter.linear_in.weight".
std::string part_name(const std::string& name, const models::LoraNames& names,
                      const std::string& label) {
    std::string end = names.part_down;
    end.replace(end.find('*'), 1, label);
    return name.substr(0, name.size() - names.down.size()) + end;
}

/// An A that all segments of a fused weight share, as one for each.
template <typename Item>
void share(const models::LoraForm& form, const models::Symbols& symbols, std::vector<Item>& items) {
    std::vector<Item> more;
    for (Item& item : items) {
        const std::string name = item.name;
        for (const models::LoraForm::Shared& shared : form.shared) {
            const auto captures = shared.name.match(
                name, [&](const std::string& symbol) { return symbols.value(symbol); });
            if (!captures || !symbols.holds(shared.condition, *captures)) {
                continue;
            }
            for (const std::string& label : shared.labels) {
                more.push_back(item);
                more.back().name = part_name(name, form.dialect.lora.value(), label);
            }
            item.name = {};
            break;
        }
    }
    std::erase_if(items, [](const Item& item) { return item.name == ""; });
    std::move(more.begin(), more.end(), std::back_inserter(items));
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.name < b.name; });
}

/// Takes the factors of the adapter out of a catalogue.
class FactorSorter {
  public:
    explicit FactorSorter(const models::LoraNames& names) {
        for (const std::string* end : {&names.down, &names.up, &names.part_down, &names.part_up}) {
            patterns_.push_back("*" + *end);
        }
    }

    [[nodiscard]] Catalogue take(Catalogue& catalogue) const {
        Catalogue factors;
        factors.format = catalogue.format;
        factors.dialect = catalogue.dialect;
        factors.files = catalogue.files;
        factors.facts = catalogue.facts;
        factors.mesh = catalogue.mesh;
        move(catalogue.tensors, factors.tensors);
        move(catalogue.shards, factors.shards);
        return factors;
    }

  private:
    template <typename Item>
    void move(std::vector<Item>& from, std::vector<Item>& to) const {
        const auto factors = std::stable_partition(
            from.begin(), from.end(), [&](const Item& item) { return !is_factor(item.name); });
        to.assign(std::make_move_iterator(factors), std::make_move_iterator(from.end()));
        from.erase(factors, from.end());
    }

    [[nodiscard]] bool is_factor(const std::string& name) const {
        return std::ranges::any_of(
            patterns_, [&](const std::string& pattern) { return glob_matches(pattern, name); });
    }

    std::vector<std::string> patterns_;
};

/// All but the tensors, which are the module tree's.
Catalogue renamed_head(const Catalogue& catalogue) {
    Catalogue out;
    out.format = catalogue.format;
    out.dialect = kModuleDialect;
    out.notes = catalogue.notes;
    out.warnings = catalogue.warnings;
    out.files = catalogue.files;
    out.statements = catalogue.statements;
    out.inert_globals = catalogue.inert_globals;
    out.facts = catalogue.facts;
    out.facts.erase("lora_rank");
    out.facts.erase("lora_only");
    return out;
}

/// "X" of "X.weight", "X.lora_A.weight".
std::string module_of(const std::string& name, std::string_view end) {
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

/// Puts what was bound into a catalogue of module names.
class Renamer {
  public:
    explicit Renamer(Catalogue& out) : out_(out) {}

    void add_factors(const plan::Binding& binding) {
        for (const plan::Target& target : binding.targets) {
            wrapped_.insert(module_of(target.name, ".lora_A.weight"));
            out_.tensors.push_back(adapters::stored_as(target, target.name));
        }
        add_ignored(binding.ledger);
    }

    void add_base(const plan::Binding& binding) {
        for (const plan::Target& target : binding.targets) {
            const std::string module = module_of(target.name, ".weight");
            const bool is_wrapped = !module.empty() && wrapped_.contains(module);
            out_.tensors.push_back(adapters::stored_as(
                target, is_wrapped ? module + ".base_layer.weight" : target.name));
        }
        add_ignored(binding.ledger);
    }

    void finish() {
        std::stable_sort(out_.tensors.begin(), out_.tensors.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; });
    }

  private:
    void add_ignored(const plan::Ledger& ledger) {
        out_.ignored.insert(out_.ignored.end(), ledger.ignored.begin(), ledger.ignored.end());
        if (ledger.padding != 0) {
            out_.ignored.push_back({"vocabulary", "padding", 1, ledger.padding});
        }
    }

    Catalogue& out_;
    std::set<std::string> wrapped_;
};

Catalogue as_peft(Catalogue catalogue, const PreparedModel& prepared, const ModelFiles& files) {
    if (!prepared.dialect->lora) {
        throw Error(ErrorCode::unsupported,
                    "the dialect " + prepared.dialect->name + " does not say how adapters are kept",
                    "give one that has `lora` with --recipe");
    }
    const bool is_alone = adapters::holds_adapter_only(catalogue);
    const models::LoraForm form = models::lora_form(*prepared.recipe, *prepared.dialect);
    Catalogue factors = FactorSorter(*prepared.dialect->lora).take(catalogue);
    share(form, *prepared.symbols, factors.tensors);
    share(form, *prepared.symbols, factors.shards);
    Catalogue out = renamed_head(catalogue);
    Renamer renamed(out);
    renamed.add_factors(
        plan::bind(std::move(factors), {&form.recipe, &form.dialect, prepared.symbols.get()}, {}));
    if (is_alone) {
        std::move(catalogue.tensors.begin(), catalogue.tensors.end(),
                  std::back_inserter(out.tensors));
        out.ignored.insert(out.ignored.end(), catalogue.ignored.begin(), catalogue.ignored.end());
    } else {
        const plan::Binding base = plan::bind(std::move(catalogue), prepared.model(), {});
        require_only_padding(base.padding, files.tokens);
        renamed.add_base(base);
    }
    renamed.finish();
    return out;
}

}  // namespace

PreparedModel prepare_with_adapter(const ModelFiles& files, const ModelChoice& choice,
                                   Catalogue& catalogue) {
    PreparedModel prepared = prepare_model(files, choice, catalogue);
    if (!holds_framework_adapter(catalogue)) {
        return prepared;
    }
    catalogue = as_peft(std::move(catalogue), prepared, files);
    PreparedModel renamed = prepare_model(files, choice, catalogue);
    // What is to be said of the framework's recipe holds for what was made of its tensors.
    renamed.warnings = std::move(prepared.warnings);
    return renamed;
}

}  // namespace shardweld::app
