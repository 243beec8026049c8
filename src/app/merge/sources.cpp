#include "sources.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "app/family/framework_adapter.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "mpi/share.hpp"
#include "reshape/destination.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Where a model directory is looked for, as `request` has its checkpoint read.
formats::InputRequest base_request(const PlanRequest& request) {
    formats::InputRequest base;
    base.directory = *request.base;
    base.backend = "hf";
    base.wants_model = true;
    base.check_crc = request.checkpoint.check_crc;
    return base;
}

/// The base of --delta comes first, then the others in their order.
std::vector<FoundCheckpoint> find_others(Session& session, formats::InputRequest request) {
    const Averaging& averaging = session.options.averaging;
    std::vector<fs::path> directories = averaging.others;
    if (averaging.base) {
        directories.insert(directories.begin(), *averaging.base);
    }
    std::vector<FoundCheckpoint> found;
    for (const fs::path& directory : directories) {
        request.directory = directory;
        found.push_back(find_shown(session, request, " of " + directory.string()));
    }
    return found;
}

/// Before the metadata of module trees are read nobody knows whether they are an adapter's alone,
/// which needs no model's files.
ModelFiles early_files(Session& session, const FoundCheckpoint& found, const PlanRequest& request) {
    const formats::Format& format = formats::format_of(found.location);
    return mpi::share(session.comm, found.home, [&] {
        const bool is_needed = needs_recipe(format);
        ModelFiles files = read_model_files(session.options, found.location, {}, is_needed,
                                            request.checkpoint.directory);
        check_model_files(files, is_needed);
        if (is_needed && request.sink == Destination::model) {
            require_readable(files);
        }
        return files;
    });
}

InputReport report_of(const Survey& survey) {
    return input_report(survey.location.directory, survey.catalogue, survey.provenance);
}

/// What a checkpoint is: the first of its notes.
std::string kind_of(const catalogue::Catalogue& catalogue) {
    return catalogue.notes.empty() ? catalogue.format : catalogue.notes.front();
}

/// All other notes, for who wants to know more.
void tell_notes(Log& log, const catalogue::Catalogue& catalogue) {
    for (const std::string& note : catalogue.notes) {
        // A choice among several checkpoints is nobody's but the reader's.
        note.starts_with("took ") ? log.info(note) : log.debug(note);
    }
}

/// "step-1 (0.5), step-2 (0.5)": checkpoints and what they are multiplied by.
std::string mixed_text(const Options& options) {
    std::vector<fs::path> checkpoints{options.input.directory};
    const std::vector<fs::path>& others = options.averaging.others;
    checkpoints.insert(checkpoints.end(), others.begin(), others.end());
    const std::vector<float> factors = options.averaging.factors();
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < checkpoints.size(); ++i) {
        texts.push_back(checkpoints[i].string() + " (" + number_text(factors[i]) + ")");
    }
    return joined(texts, ", ");
}

void say_checkpoint(Log& log, const Options& options, const catalogue::Catalogue& catalogue) {
    const Averaging& averaging = options.averaging;
    if (averaging.base) {
        log.info(Headline{"checkpoint", averaging.base->string(),
                          " and differences from it: " + mixed_text(options)});
    } else if (averaging.is_average) {
        log.info(Headline{"checkpoint", "average of " + std::to_string(averaging.others.size() + 1),
                          ": " + mixed_text(options)});
    } else {
        const std::string what = kind_of(catalogue);
        const std::size_t end = std::min(what.find(", "), what.size());
        std::string_view kind = what;
        kind = kind.substr(0, end);
        // The label says already that it is a checkpoint.
        constexpr std::string_view kBefore = "checkpoint of ";
        constexpr std::string_view kBehind = " checkpoint";
        kind.remove_prefix(kind.starts_with(kBefore) ? kBefore.size() : 0);
        kind.remove_suffix(kind.ends_with(kBehind) ? kBehind.size() : 0);
        log.info(Headline{"checkpoint", std::string(kind), what.substr(end)});
    }
}

void tell_survey(Session& session, const std::string& name, const Survey& survey) {
    const catalogue::Catalogue& catalogue = survey.catalogue;
    tell_notes(session.log, catalogue);
    session.log.debug("provenance of " + name + " " + catalogue::text_of(survey.provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, plan::Warning{code, "", name + ": " + text});
    }
}

/// Their files are put behind those of `first`.
std::vector<Survey> survey_others(Session& session, std::vector<FoundCheckpoint> others,
                                  Survey& first) {
    if (others.empty()) {
        return {};
    }
    session.run.mixed = {{report_of(first)}};
    std::vector<Survey> read;
    for (FoundCheckpoint& other : others) {
        const std::string name = other.given.string();
        Survey survey = read_shown(session, std::move(other), " of " + name);
        tell_survey(session, name, survey);
        session.run.mixed.push_back({report_of(survey)});
        put_files_behind(first, survey);
        read.push_back(std::move(survey));
    }
    return read;
}

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it.
bool is_base_of_adapter(const Session& session, const PlanRequest& request,
                        const catalogue::Catalogue& checkpoint) {
    if (!request.base) {
        return false;
    }
    const bool is_adapter = holds_adapter_only(checkpoint);
    if (!is_adapter && request.sink == Destination::comparison) {
        throw Error(ErrorCode::usage,
                    "test takes --base only for checkpoints that hold nothing but a LoRA adapter: "
                    "this one has its own base",
                    "compare with another model by --test_hf_dir");
    }
    if (!is_adapter && session.output.is_training()) {
        throw Error(ErrorCode::usage,
                    "--base is for checkpoints that hold nothing but a LoRA adapter: this one has "
                    "its own base, and a training checkpoint is not compared",
                    "leave it out, or write a HuggingFace model: --to hf");
    }
    return is_adapter;
}

/// Puts the base's tensors and files into a checkpoint's survey; the files keep their visibility.
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

/// Its files are put behind all others.
Survey survey_template(Session& session, Sources& sources, SurveyedSources& read) {
    FoundCheckpoint found = std::move(sources.like).value();
    CheckpointTemplate like{found.given, found.location, {}, 0, session.options.copies_template};
    if (like.name_of(like.location.directory).starts_with("..")) {
        like.root = like.location.directory;
    }
    Survey survey = read_shown(session, std::move(found), " of the template");
    tell_survey(session, like.root.string(), survey);
    mpi::collectively(session.comm, [&] { require_no_other_weights(like, survey.catalogue); });
    like.stamps = survey.stamps;
    like.first_file = static_cast<std::uint32_t>(read.survey.catalogue.files.size());
    put_files_behind(read.survey, survey);
    like.catalogue = survey.catalogue;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == read.survey.home) {
            like.assets = assets_of(like);
        }
    });
    read.like = std::make_shared<const CheckpointTemplate>(std::move(like));
    return survey;
}

/// Its files are put behind all others.
Survey survey_reference(Session& session, Sources& sources, SurveyedSources& read) {
    FoundCheckpoint found = std::move(sources.supplement).value();
    const fs::path directory = found.given;
    Survey survey = read_shown(session, std::move(found), " of the reference");
    tell_survey(session, directory.string(), survey);
    put_files_behind(read.survey, survey);
    read.supplement = std::make_shared<const Supplement>(Supplement{directory, survey.catalogue});
    return survey;
}

SurveyedSources read_metadata(Session& session, const PlanRequest& request, Sources& sources) {
    const MemoryMeter meter;
    SurveyedSources read{read_shown(session, std::move(sources.checkpoint))};
    read.holds_adapter_only = app::holds_adapter_only(read.survey.catalogue);
    if (is_base_of_adapter(session, request, read.survey.catalogue)) {
        Survey base = read_shown(session, std::move(sources.base).value(), " of the base");
        read.base = base.location;
        mpi::collectively(session.comm, [&] { add_base(read.survey, std::move(base)); });
    }
    read.others = survey_others(session, std::move(sources.others), read.survey);
    std::vector<const Survey*> behind;
    for (const Survey& other : read.others) {
        behind.push_back(&other);
    }
    std::optional<Survey> like;
    if (sources.like) {
        like = survey_template(session, sources, read);
        behind.push_back(&*like);
    }
    std::optional<Survey> reference;
    if (sources.supplement) {
        reference = survey_reference(session, sources, read);
        behind.push_back(&*reference);
    }
    read.input =
        input_of(read.survey, meter, session.options.check_crc == CheckCrc::during, behind);
    return read;
}

void report_survey(Session& session, const SurveyedSources& read) {
    const catalogue::Catalogue& catalogue = read.survey.catalogue;
    say_checkpoint(session.log, session.options, catalogue);
    tell_notes(session.log, catalogue);
    session.log.debug("read the metadata of " + counted(catalogue.files.size(), "shard file") +
                      ": " +
                      counted(catalogue.tensors.size() + catalogue.shards.size(), "stored tensor"));
    session.log.debug("provenance " + catalogue::text_of(read.survey.provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, plan::Warning{code, "", text});
    }
    session.run.input = report_of(read.survey);
    session.run.metadata_reads = read.input.n_reads;
    session.watch.lap("survey");
}

/// Without the tokenizer's directory where the run says that no model could use what is there.
formats::Location with_own_tokenizer(const Survey& survey) {
    formats::Location location = survey.location;
    if (survey.catalogue.facts.contains(formats::kForeignTokenizer)) {
        location.tokenizer_directory.reset();
    }
    return location;
}

/// The files, now that it is known which are needed.
ModelFiles settled_files(Session& session, const SurveyedSources& read,
                         std::optional<ModelFiles> early, const PlanRequest& request) {
    const Lora lora = model_choice(session.options, session.output, request.sink).lora;
    const bool is_needed = !is_adapter_alone(lora, read.survey.catalogue);
    const formats::Location location = with_own_tokenizer(read.survey);
    const bool is_known = early && location.tokenizer_directory.has_value() ==
                                       read.survey.location.tokenizer_directory.has_value();
    const auto settle = [&] {
        ModelFiles files = is_known ? std::move(*early)
                                    : read_model_files(session.options, location, read.base,
                                                       is_needed, request.checkpoint.directory);
        if (is_needed) {
            require_config(files, session.options, read.survey.location);
        }
        if (is_needed && request.sink == Destination::model) {
            require_readable(files);
        }
        return files;
    };
    return mpi::share(session.comm, read.input.home, settle);
}

}  // namespace

PlanRequest merge_request(const Options& options) {
    return {options.input, options.base, Destination::model, options.base.has_value()};
}

std::vector<const FoundCheckpoint*> Sources::all() const {
    std::vector<const FoundCheckpoint*> all{&checkpoint};
    for (const auto* const one : {&base, &like, &supplement}) {
        if (*one) {
            all.push_back(&**one);
        }
    }
    for (const FoundCheckpoint& other : others) {
        all.push_back(&other);
    }
    return all;
}

Sources find_sources(Session& session, const PlanRequest& request) {
    Sources sources{find_shown(session, request.checkpoint),
                    find_others(session, request.checkpoint),
                    {},
                    {},
                    {},
                    {}};
    if (request.base) {
        sources.base = find_shown(session, base_request(request), " of the base");
    } else {
        sources.files = early_files(session, sources.checkpoint, request);
    }
    if (const std::string like = reshape::template_in(session.output.form); !like.empty()) {
        formats::InputRequest wanted;
        wanted.directory = like;
        sources.like = find_shown(session, wanted, " of the template");
    }
    if (!session.options.supplement.empty()) {
        formats::InputRequest wanted;
        wanted.directory = session.options.supplement;
        wanted.wants_model = true;
        wanted.check_crc = request.checkpoint.check_crc;
        sources.supplement = find_shown(session, wanted, " of the reference");
    }
    return sources;
}

void check_sums(Session& session, Sources& sources) {
    check_sums_shown(session, sources.checkpoint);
    if (sources.base) {
        check_sums_shown(session, *sources.base);
    }
    if (sources.supplement) {
        check_sums_shown(session, *sources.supplement);
    }
    for (FoundCheckpoint& other : sources.others) {
        check_sums_shown(session, other);
    }
}

SurveyedSources survey_sources(Session& session, const PlanRequest& request, Sources sources) {
    SurveyedSources read = read_metadata(session, request, sources);
    report_survey(session, read);
    read.files = settled_files(session, read, std::move(sources.files), request);
    return read;
}

}  // namespace shardweld::app
