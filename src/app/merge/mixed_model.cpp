#include "mixed_model.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapters/separate.hpp"
#include "app/compare/comparison.hpp"
#include "app/family/framework_adapter.hpp"
#include "app/survey/survey.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "plan/bind/mixed.hpp"
#include "shardweld/error.hpp"

#include "tied.hpp"

namespace shardweld::app {

namespace {

OtherCheckpoint find_other(Session& session, const fs::path& directory) {
    formats::InputRequest request = input_request(session.options);
    request.directory = directory;
    return {directory, find_shown(session, request, " of " + directory.string())};
}

void tell_survey(Session& session, const std::string& name, const Survey& survey) {
    const catalogue::Catalogue& catalogue = survey.catalogue;
    for (const std::string& note : catalogue.notes) {
        session.log.info(note);
    }
    session.log.info("provenance of " + name + " " +
                     catalogue::name_of(survey.provenance.standing));
    session.log.debug("provenance of " + name + " " + catalogue::text_of(survey.provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, plan::Warning{code, "", name + ": " + text});
    }
}

MixedInput described(const Survey& survey) {
    MixedInput input;
    Report report;
    describe_input(report, survey.location.directory, survey.catalogue);
    input.directory = report.input_directory;
    input.format = report.input_format;
    input.facts = report.facts;
    input.n_files = report.n_input_files;
    input.bytes = report.input_bytes;
    input.provenance = survey.provenance;
    return input;
}

/// Fields that say nothing of what weights mean.
bool is_meant_otherwise(const ConfigDifference& difference) {
    constexpr std::array<std::string_view, 6> kHarmless = {
        "_name_or_path", "dtype", "torch_dtype", "use_cache", "name_or_path", "auto_map"};
    return std::find(kHarmless.begin(), kHarmless.end(), difference.field) == kHarmless.end();
}

void compare_configs(Session& session, const std::string& name, const ModelFiles& files,
                     const BoundModel& lead) {
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
        warn(session, plan::Warning{"config_differs", "",
                                    "config.json of " + name + " says " + listed(texts) +
                                        "; that of " + lead.files.config_path + " is written"});
    }
}

/// Its own config.json where it has one; what lies beside it is not written.
ModelFiles files_of(Session& session, const SurveyedCheckpoint& other, const BoundModel& lead) {
    ModelFiles files = mpi::share(session.comm, other.survey.home, [&] {
        return read_model_files(session.options,
                                {other.survey.location, std::nullopt, false, other.directory});
    });
    if (files.config_path.empty()) {
        files.config_path = lead.files.config_path;
        files.config_text = lead.files.config_text;
        files.tokens = lead.files.tokens;
    } else {
        compare_configs(session, other.directory.string(), files, lead);
    }
    files.has_tokenizer = true;
    files.lost_assets.clear();
    files.assets.clear();
    return files;
}

/// Binds a checkpoint as it would be alone.
BoundModel bind_other(Session& session, const Input& input, SurveyedCheckpoint other,
                      const BoundModel& lead, const plan::PlanChoice& choice) {
    try {
        ModelFiles files = files_of(session, other, lead);
        return bind_checkpoint(session, input, std::move(files), lead.prepared.choice,
                               std::move(other.survey.catalogue), choice);
    } catch (Error& error) {
        error.add_context("checkpoint " + other.directory.string());
        throw;
    }
}

/// Integers and booleans have no average.
void require_equal(Session& session, const Input& input, plan::Binding& binding,
                   const plan::PlanChoice& choice) {
    const auto differing =
        compare_same(session.comm, binding, source_of(session, input), input.visibility, choice);
    if (!differing.empty()) {
        throw Error(ErrorCode::mismatch,
                    differing.front().target +
                        " holds no floats and differs between the "
                        "checkpoints in " +
                        counted(static_cast<std::size_t>(differing.front().n_elements), "element"),
                    "give checkpoints of one model, or leave it out with --exclude");
    }
}

/// The checkpoints in the order in which they are added: a base, the lead, the others.
std::vector<plan::Share> shares_of(const Options& options, plan::Share lead,
                                   std::vector<plan::Share> others) {
    const std::vector<float> factors = options.averaging.factors();
    const std::size_t n_bases = options.averaging.base ? 1 : 0;
    for (std::size_t i = n_bases; i < others.size(); ++i) {
        others[i].weight = factors[i + 1 - n_bases];
    }
    lead.weight = factors[0];
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(n_bases), std::move(lead));
    return others;
}

/// The hub name of a logical tensor that there is once; "" if none.
std::string only_name(const models::Recipe& recipe, const std::string& logical) {
    const auto line = std::ranges::find(recipe.hub, logical, &models::Line::logical);
    return line == recipe.hub.end() ? "" : line->name.text;
}

plan::Share share_of(const std::string& name, BoundModel& model) {
    plan::Share share{std::move(model.bound.binding), name, 1, {}};
    for (const models::SameRule& rule : model.prepared.recipe->same) {
        if (model.prepared.symbols->holds(rule.condition)) {
            share.tied[only_name(*model.prepared.recipe, rule.a)] =
                only_name(*model.prepared.recipe, rule.b);
        }
    }
    return share;
}

/// Where another's head differs from the lead's embedding, the mix has both.
void settle_tie(const std::map<std::string, std::string>& tied, BoundModel& lead) {
    const bool has_both =
        std::ranges::any_of(lead.bound.binding.targets,
                            [&](const plan::Target& target) { return tied.contains(target.name); });
    if (has_both) {
        lead.prepared.config.set("tie_word_embeddings", "false");
    }
}

void report_shares(Report& report, const std::vector<plan::Share>& shares, std::size_t lead) {
    // Until now the inputs stand in the order in which they were surveyed: the lead is the first.
    std::rotate(report.mixed.begin(), report.mixed.begin() + 1,
                report.mixed.begin() + static_cast<std::ptrdiff_t>(lead) + 1);
    for (std::size_t i = 0; i < shares.size(); ++i) {
        report.mixed[i].weight = shares[i].weight;
        report.mixed[i].is_base = i < lead;
        report.mixed[i].ledger = shares[i].binding.ledger;
    }
}

}  // namespace

std::vector<OtherCheckpoint> find_others(Session& session) {
    const Averaging& averaging = session.options.averaging;
    std::vector<OtherCheckpoint> found;
    if (averaging.base) {
        found.push_back(find_other(session, *averaging.base));
    }
    for (const fs::path& directory : averaging.others) {
        found.push_back(find_other(session, directory));
    }
    return found;
}

std::vector<SurveyedCheckpoint> survey_others(Session& session, std::vector<OtherCheckpoint> others,
                                              Survey& first) {
    if (others.empty()) {
        return {};
    }
    session.report.mixed = {described(first)};
    std::vector<SurveyedCheckpoint> read;
    for (OtherCheckpoint& other : others) {
        const std::string name = other.directory.string();
        Survey survey = read_shown(session, std::move(other.found), " of " + name);
        tell_survey(session, name, survey);
        session.report.mixed.push_back(described(survey));
        put_files_behind(first, survey);
        read.push_back({std::move(other.directory), std::move(survey)});
    }
    return read;
}

BoundModel mix_in(Session& session, const Input& input, BoundModel lead,
                  std::vector<SurveyedCheckpoint> others, const plan::PlanChoice& choice) {
    std::vector<plan::Share> bindings;
    for (SurveyedCheckpoint& other : others) {
        const std::string name = other.directory.string();
        BoundModel bound = bind_other(session, input, std::move(other), lead, choice);
        for (std::string& line : bound.trace) {
            lead.trace.push_back(name + ": " + line);
        }
        bindings.push_back(share_of(name, bound));
    }
    const std::size_t place = session.options.averaging.base ? 1 : 0;
    plan::Binding& binding = lead.bound.binding;
    plan::Share own = share_of(session.options.local_dir.string(), lead);
    const auto tied = own.tied;
    auto shares = shares_of(session.options, std::move(own), std::move(bindings));
    report_shares(session.report, shares, place);
    const auto kind = place == 0 ? plan::Mix::Kind::sum : plan::Mix::Kind::deltas;
    binding = mpi::collectively_get(session.comm,
                                    [&] { return plan::mixed(std::move(shares), kind, place); });
    require_equal(session, input, binding, choice);
    settle_tie(tied, lead);
    return lead;
}

bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint) {
    if (!options.base) {
        return false;
    }
    const bool is_adapter = adapters::holds_adapter_only(checkpoint);
    if (!is_adapter && sink == Destination::comparison) {
        throw Error(ErrorCode::usage,
                    "test takes --base only for checkpoints that hold nothing but a LoRA adapter: "
                    "this one has its own base",
                    "compare with another model by --test_hf_dir");
    }
    return is_adapter;
}

formats::InputRequest base_request(const Options& options) {
    formats::InputRequest request;
    request.directory = *options.base;
    request.backend = "hf";
    request.wants_model = true;
    request.check_crc = options.check_crc != CheckCrc::off;
    return request;
}

void add_base(Survey& survey, Survey base_survey) {
    catalogue::Catalogue& checkpoint = survey.catalogue;
    catalogue::Catalogue& base = base_survey.catalogue;
    if (base.dialect != checkpoint.dialect && !holds_framework_adapter(checkpoint)) {
        throw Error(ErrorCode::unsupported, "--base is a " + base.format + " model",
                    "give the HuggingFace model that the adapter was trained on");
    }
    put_files_behind(survey, base_survey);
    std::move(base.tensors.begin(), base.tensors.end(), std::back_inserter(checkpoint.tensors));
    std::move(base.shards.begin(), base.shards.end(), std::back_inserter(checkpoint.shards));
    std::move(base.notes.begin(), base.notes.end(), std::back_inserter(checkpoint.notes));
    std::move(base.ignored.begin(), base.ignored.end(), std::back_inserter(checkpoint.ignored));
    std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace shardweld::app
