#include "sources.hpp"

#include <algorithm>
#include <iterator>
#include <span>
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

/// What is read, by role: the lists of checkpoints that the options give in several places.
std::vector<std::pair<Role, formats::JobInput>> wanted_inputs(const Session& session,
                                                              const PlanRequest& request) {
    std::vector<std::pair<Role, formats::JobInput>> wanted{{Role::weights, request.checkpoint}};
    const auto add = [&](Role role, const fs::path& directory, formats::JobInput how = {}) {
        how.directory = directory;
        how.check_crc = request.checkpoint.check_crc;
        wanted.emplace_back(role, std::move(how));
    };
    formats::JobInput model;
    model.wants_model = true;
    if (request.base) {
        formats::JobInput base = model;
        base.backend = "hf";
        add(Role::base, *request.base, base);
    }
    if (session.job.model.averaging.base) {
        add(Role::mixed, *session.job.model.averaging.base, request.checkpoint);
    }
    for (const fs::path& directory : session.job.model.averaging.others) {
        add(Role::mixed, directory, request.checkpoint);
    }
    if (const std::string like = reshape::template_in(session.output.form); !like.empty()) {
        add(Role::like, like);
    }
    if (!session.job.model.supplement.empty()) {
        add(Role::supplement, session.job.model.supplement, model);
    }
    return wanted;
}

/// Before the metadata of module trees are read nobody knows whether they are an adapter's alone,
/// which needs no model's files.
ModelFiles early_files(Session& session, const Checkpoint& found, const PlanRequest& request) {
    const formats::Format& format = formats::format_of(found.location);
    return mpi::share(session.comm, found.home, [&] {
        const bool is_needed = needs_recipe(format);
        ModelFiles files = read_model_files(session.job, found.location, {}, is_needed,
                                            request.checkpoint.directory);
        check_model_files(files, is_needed);
        if (is_needed && request.sink == Purpose::model) {
            require_readable(files);
        }
        return files;
    });
}

InputReport report_of(const Checkpoint& read) {
    return input_report(read.location.directory, read.catalogue, read.provenance);
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
std::string mixed_text(const Job& job) {
    std::vector<fs::path> checkpoints{job.inputs.front().directory};
    const std::vector<fs::path>& others = job.model.averaging.others;
    checkpoints.insert(checkpoints.end(), others.begin(), others.end());
    const std::vector<float> factors = job.model.averaging.factors();
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < checkpoints.size(); ++i) {
        texts.push_back(checkpoints[i].string() + " (" + number_text(factors[i]) + ")");
    }
    return joined(texts, ", ");
}

void say_checkpoint(Log& log, const Job& job, const catalogue::Catalogue& catalogue) {
    const Averaging& averaging = job.model.averaging;
    if (averaging.base) {
        log.info(Headline{"checkpoint", averaging.base->string(),
                          " and differences from it: " + mixed_text(job)});
    } else if (averaging.is_average) {
        log.info(Headline{"checkpoint", "average of " + std::to_string(averaging.others.size() + 1),
                          ": " + mixed_text(job)});
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

void tell_survey(Session& session, const std::string& name, const Checkpoint& read) {
    tell_notes(session.log, read.catalogue);
    session.log.debug("provenance of " + name + " " + catalogue::text_of(read.provenance));
    for (const auto& [code, text] : read.catalogue.warnings) {
        warn(session, Warning{code, "", name + ": " + text});
    }
}

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it.
bool is_base_of_adapter(const Session& session, const PlanRequest& request,
                        const catalogue::Catalogue& checkpoint) {
    if (!request.base) {
        return false;
    }
    const bool is_adapter = holds_adapter_only(checkpoint);
    if (!is_adapter && request.sink == Purpose::comparison) {
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

/// Puts the base's tensors and files into a checkpoint; the files keep their visibility.
void add_base(Checkpoint& first, Checkpoint& with) {
    catalogue::Catalogue& checkpoint = first.catalogue;
    catalogue::Catalogue& base = with.catalogue;
    if (base.dialect != checkpoint.dialect && !holds_framework_adapter(checkpoint)) {
        throw Error(ErrorCode::unsupported, "--base is a " + base.format + " model",
                    "give the HuggingFace model that the adapter was trained on");
    }
    put_files_behind(first, with);
    std::move(base.tensors.begin(), base.tensors.end(), std::back_inserter(checkpoint.tensors));
    std::move(base.shards.begin(), base.shards.end(), std::back_inserter(checkpoint.shards));
    std::move(base.notes.begin(), base.notes.end(), std::back_inserter(checkpoint.notes));
    std::move(base.ignored.begin(), base.ignored.end(), std::back_inserter(checkpoint.ignored));
    std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
    base = {};
}

/// Collective. The template: what is read, and its other files on the rank that reads side files.
std::shared_ptr<const CheckpointTemplate> template_of(Session& session, const Checkpoint& read,
                                                      int home) {
    CheckpointTemplate like{
        read.given, read.location, {}, read.first_file, session.job.run.copies_template};
    if (like.name_of(like.location.directory).starts_with("..")) {
        like.root = like.location.directory;
    }
    tell_survey(session, like.root.string(), read);
    mpi::collectively(session.comm, [&] { require_no_other_weights(like, read.catalogue); });
    like.stamps = read.stamps;
    like.catalogue = read.catalogue;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == home) {
            like.assets = assets_of(like);
        }
    });
    return std::make_shared<const CheckpointTemplate>(std::move(like));
}

/// Reads the checkpoints; the files of all stand behind those of the first.
void read_inputs(Session& session, const PlanRequest& request, Sources& sources) {
    const MemoryMeter meter;
    Checkpoint& first = sources.weights();
    for (Checkpoint& one : sources.inputs) {
        if (one.role == Role::base && !is_base_of_adapter(session, request, first.catalogue)) {
            continue;
        }
        read_shown(session, one);
        switch (one.role) {
            case Role::weights:
                sources.holds_adapter_only = holds_adapter_only(first.catalogue);
                break;
            case Role::base:
                mpi::collectively(session.comm, [&] { add_base(first, one); });
                break;
            case Role::mixed:
                if (session.run.mixed.empty()) {
                    session.run.mixed = {{report_of(first)}};
                }
                tell_survey(session, one.given.string(), one);
                session.run.mixed.push_back({report_of(one)});
                put_files_behind(first, one);
                break;
            case Role::like:
                put_files_behind(first, one);
                sources.like = template_of(session, one, first.home);
                break;
            case Role::supplement:
            case Role::compared:
                tell_survey(session, one.given.string(), one);
                put_files_behind(first, one);
                break;
        }
    }
    sources.input = input_of(first, meter, session.job.run.check_crc == CheckCrc::during,
                             std::span(sources.inputs).subspan(1));
    const auto reference = std::ranges::find(sources.inputs, Role::supplement, &Checkpoint::role);
    if (reference != sources.inputs.end()) {
        sources.supplement = std::make_shared<const Checkpoint>(std::move(*reference));
    }
    std::erase_if(sources.inputs, [](const Checkpoint& one) {
        return one.role == Role::like || one.role == Role::supplement;
    });
}

void report_survey(Session& session, const Sources& read) {
    const catalogue::Catalogue& catalogue = read.weights().catalogue;
    say_checkpoint(session.log, session.job, catalogue);
    tell_notes(session.log, catalogue);
    session.log.debug("read the metadata of " + counted(catalogue.files.size(), "shard file") +
                      ": " +
                      counted(catalogue.tensors.size() + catalogue.shards.size(), "stored tensor"));
    session.log.debug("provenance " + catalogue::text_of(read.weights().provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, Warning{code, "", text});
    }
    session.run.input = report_of(read.weights());
    session.run.metadata_reads = read.input.n_reads;
    session.watch.lap("survey");
}

/// Without the tokenizer's directory where the run says that no model could use what is there.
formats::Location with_own_tokenizer(const Checkpoint& read) {
    formats::Location location = read.location;
    if (read.catalogue.facts.contains(formats::kForeignTokenizer)) {
        location.tokenizer_directory.reset();
    }
    return location;
}

/// The files, now that it is known which are needed.
ModelFiles settled_files(Session& session, const Sources& read, std::optional<ModelFiles> early,
                         const PlanRequest& request) {
    const Checkpoint& checkpoint = read.weights();
    const Lora lora = model_choice(session.job, session.output, request.sink).lora;
    const bool is_needed = !is_adapter_alone(lora, checkpoint.catalogue);
    const formats::Location location = with_own_tokenizer(checkpoint);
    const bool is_known = early && location.tokenizer_directory.has_value() ==
                                       checkpoint.location.tokenizer_directory.has_value();
    std::optional<formats::Location> base;
    if (request.base && read.holds_adapter_only) {
        base = read.inputs[1].location;
    }
    const auto settle = [&] {
        ModelFiles files = is_known ? std::move(*early)
                                    : read_model_files(session.job, location, base, is_needed,
                                                       request.checkpoint.directory);
        if (is_needed) {
            require_config(files, session.job, checkpoint.location);
        }
        if (is_needed && request.sink == Purpose::model) {
            require_readable(files);
        }
        return files;
    };
    return mpi::share(session.comm, read.input.home, settle);
}

}  // namespace

PlanRequest merge_request(const Job& job) {
    return {job.inputs.front(), job.model.base, Purpose::model, job.model.base.has_value()};
}

Sources find_sources(Session& session, const PlanRequest& request) {
    Sources sources;
    for (const auto& [role, wanted] : wanted_inputs(session, request)) {
        sources.inputs.push_back(find_shown(session, wanted, role));
    }
    if (!request.base) {
        sources.files = early_files(session, sources.weights(), request);
    }
    return sources;
}

void check_sums(Session& session, Sources& sources) {
    for (Checkpoint& one : sources.inputs) {
        if (one.role != Role::like) {
            check_sums_shown(session, one);
        }
    }
}

void survey_sources(Session& session, const PlanRequest& request, Sources& sources) {
    read_inputs(session, request, sources);
    report_survey(session, sources);
    sources.files = settled_files(session, sources, std::exchange(sources.files, {}), request);
}

}  // namespace shardweld::app
