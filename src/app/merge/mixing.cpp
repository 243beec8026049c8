#include "mixing.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "app/binding/untied.hpp"
#include "app/compare/comparison.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "plan/bind/mixed.hpp"
#include "shardweld/error.hpp"

#include "bind_checkpoint.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

/// Fields that say nothing of what weights mean.
bool is_meant_otherwise(const ConfigDifference& difference) {
    return !is_known_as(difference.field, "field that says nothing of weights");
}

void compare_configs(const Run& run, const std::string& name, const ModelFiles& files,
                     const HeldModel& lead) {
    std::vector<std::string> texts;
    for (const ConfigDifference& one :
         config_differences(files.config_text, lead.files.config_text)) {
        if (is_meant_otherwise(one)) {
            texts.push_back(printable(one.field) + " " +
                            printable(one.tested.empty() ? "(absent)" : one.tested) + ", not " +
                            printable(one.reference.empty() ? "(absent)" : one.reference));
        }
    }
    if (!texts.empty()) {
        warn(run, Warning{"config_differs", "",
                          "config.json of " + name + " says " + listed(texts) + "; that of " +
                              lead.files.config_path + " is written"});
    }
}

/// Its own config.json where it has one; what lies beside it is not written.
ModelFiles files_of(const Run& run, const Checkpoint& other, const HeldModel& lead) {
    ModelFiles files = mpi::share(run.comm, other.home, [&] {
        return read_model_files(run.job, other.location, {}, false, other.given);
    });
    if (files.config_path.empty()) {
        files.config_path = lead.files.config_path;
        files.config_text = lead.files.config_text;
        files.tokens = lead.files.tokens;
    } else {
        compare_configs(run, other.given.string(), files, lead);
    }
    files.has_tokenizer = true;
    files.lost_assets.clear();
    files.unread_files.clear();
    files.assets.clear();
    return files;
}

/// Binds a checkpoint as it would be alone.
HeldModel bind_other(const Run& run, const Input& input, Checkpoint& other, const HeldModel& lead,
                     const plan::JobPlan& choice) {
    try {
        ModelFiles files = files_of(run, other, lead);
        return bind_checkpoint(run, input, std::move(files), std::move(other.catalogue),
                               lead.choice, choice);
    } catch (Error& error) {
        error.add_context("checkpoint " + other.given.string());
        throw;
    }
}

/// Integers and booleans have no average.
void require_equal(const Run& run, const Input& input, plan::Binding& binding,
                   const plan::JobPlan& choice) {
    const auto differing =
        compare_same(run.comm, binding, source_of(run, input), input.visibility, choice);
    if (!differing.empty()) {
        throw Error(ErrorCode::mismatch,
                    differing.front().target +
                        " holds no floats and differs between the "
                        "checkpoints in " +
                        counted(differing.front().n_elements, "element"),
                    "give checkpoints of one model, or leave it out with --exclude");
    }
}

/// The checkpoints in the order in which they are added: a base, the lead, the others.
std::vector<plan::MixInput> mix_inputs(const Job& job, plan::MixInput lead,
                                       std::vector<plan::MixInput> others) {
    const std::vector<float> factors = job.model.averaging.factors();
    const std::size_t n_bases = job.model.averaging.base ? 1 : 0;
    for (std::size_t i = n_bases; i < others.size(); ++i) {
        others[i].weight = factors[i + 1 - n_bases];
    }
    lead.weight = factors[0];
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(n_bases), std::move(lead));
    return others;
}

/// The hub name of a logical tensor that there is once; "" if none.
std::string only_name(const models::Recipe& recipe, const std::string& logical) {
    auto* const line = find_item(recipe.hub, logical, &models::Line::logical);
    return line == nullptr ? "" : line->name.text;
}

plan::MixInput mix_input(const std::string& name, HeldModel& model) {
    plan::MixInput share{std::move(model.binding), name, 1, {}};
    for (const models::SameRule& rule : model.recipe->same) {
        if (model.symbols->holds(rule.condition)) {
            share.tied[only_name(*model.recipe, rule.a)] = only_name(*model.recipe, rule.b);
        }
    }
    return share;
}

/// The mix has a head of its own where another input's head differs from the lead's embedding.
void settle_tie(const std::map<std::string, std::string>& tied, HeldModel& lead) {
    const bool has_both =
        std::ranges::any_of(lead.binding.targets,
                            [&](const plan::Target& target) { return tied.contains(target.name); });
    if (has_both) {
        untie(lead.config, lead);
    }
}

void report_inputs(RunReport& report, const std::vector<plan::MixInput>& shares, std::size_t lead) {
    // Until now the inputs stand in the order in which they were surveyed: the lead is the first.
    std::rotate(report.mixed.begin(), report.mixed.begin() + 1,
                report.mixed.begin() + static_cast<std::ptrdiff_t>(lead) + 1);
    for (const std::size_t i : indices(shares)) {
        report.mixed[i].weight = shares[i].weight;
        report.mixed[i].is_base = i < lead;
        report.mixed[i].ledger = shares[i].binding.ledger;
    }
}

}  // namespace

HeldModel mix_in(const Run& run, Merge& merge, HeldModel lead, const plan::JobPlan& choice) {
    std::vector<plan::MixInput> bindings;
    for (Checkpoint& other : merge.inputs) {
        if (other.role != formats::Role::mixed) {
            continue;
        }
        const std::string name = other.given.string();
        HeldModel bound = bind_other(run, merge.input, other, lead, choice);
        for (std::string& line : bound.trace) {
            lead.trace.push_back(name + ": ");
            lead.trace.back() += line;
        }
        bindings.push_back(mix_input(name, bound));
    }
    if (bindings.empty()) {
        return lead;
    }
    const std::size_t place = run.job.model.averaging.base ? 1 : 0;
    plan::Binding& binding = lead.binding;
    plan::MixInput own = mix_input(run.job.inputs.front().directory.string(), lead);
    const auto tied = own.tied;
    auto shares = mix_inputs(run.job, std::move(own), std::move(bindings));
    if (!run.job.model.averaging.weights.empty()) {
        run.log.info(run.job.model.averaging.text());  // they may have been divided
    }
    report_inputs(*run.report, shares, place);
    const auto kind = place == 0 ? plan::MixKind::sum : plan::MixKind::deltas;
    binding = mpi::collectively_get(run.comm,
                                    [&] { return plan::mixed(std::move(shares), kind, place); });
    require_equal(run, merge.input, binding, choice);
    settle_tie(tied, lead);
    return lead;
}

}  // namespace shardweld::app
