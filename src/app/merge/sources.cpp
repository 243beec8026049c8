#include "sources.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Before the metadata of module trees are read nobody knows whether they are an adapter's alone,
/// which needs no model's files.
ModelFiles early_files(const Run& run, const Merge& merge) {
    const Checkpoint& found = merge.weights();
    const formats::Format& format = formats::format_of(found.location);
    return mpi::share(run.comm, found.home, [&] {
        const bool is_needed = needs_recipe(format);
        ModelFiles files = read_model_files(run.job, found.location, {}, is_needed,
                                            run.job.inputs.front().directory);
        check_model_files(files, is_needed);
        if (is_needed && merge.is_written) {
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
    const std::vector<fs::path> checkpoints = averaged(job);
    const std::vector<float> factors = job.model.averaging.factors();
    std::vector<std::string> texts;
    for (const std::size_t i : indices(checkpoints)) {
        texts.push_back(checkpoints[i].string() + " (" + number_text(factors[i]) + ")");
    }
    return joined(texts, ", ");
}

/// ", in DIR" where it is another one than was typed.
std::string place_text(const Job& job, const fs::path& directory) {
    const bool is_typed = io::resolved(job.inputs.front().directory) == directory;
    return is_typed ? "" : ", in " + io::shown(directory);
}

void say_checkpoint(Log& log, const Job& job, const Checkpoint& read) {
    const catalogue::Catalogue& catalogue = read.catalogue;
    const Averaging& averaging = job.model.averaging;
    if (averaging.base) {
        log.info(Headline{"checkpoint", averaging.base->string(),
                          " and differences from it: " + mixed_text(job)});
    } else if (averaging.is_average) {
        log.info(Headline{"checkpoint", "average of " + std::to_string(averaging.n_checkpoints),
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
        log.info(Headline{"checkpoint", std::string(kind),
                          what.substr(end) + place_text(job, read.location.directory)});
    }
}

void tell_survey(const Run& run, const std::string& name, const Checkpoint& read) {
    tell_notes(run.log, read.catalogue);
    run.log.debug("provenance of " + name + " " + catalogue::text_of(read.provenance));
    for (const auto& [code, text] : read.catalogue.warnings) {
        warn(run, Warning{code, "", name + ": " + text});
    }
}

/// Whether --base is the model of a checkpoint that holds an adapter alone; else a merge compares
/// with it.
bool is_base_of_adapter(const Run& run, const Merge& merge) {
    if (!run.job.model.base) {
        return false;
    }
    const bool is_adapter = holds_adapter_only(merge.weights().catalogue);
    if (!is_adapter && !merge.is_written) {
        throw Error(ErrorCode::usage,
                    "test takes --base only for checkpoints that hold nothing but a LoRA adapter: "
                    "this one has its own base",
                    "compare with another model by --test_hf_dir");
    }
    if (!is_adapter && merge.first().asked().is_training()) {
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
    append_all(checkpoint.tensors, std::move(base.tensors));
    append_all(checkpoint.shards, std::move(base.shards));
    append_all(checkpoint.notes, std::move(base.notes));
    append_all(checkpoint.ignored, std::move(base.ignored));
    std::ranges::stable_sort(checkpoint.tensors,
                             [](const auto& a, const auto& b) { return a.name < b.name; });
    base = {};
}

/// Collective. Puts the files of the template behind those of `first`; the rank that reads side
/// files opens what is copied of it.
void add_template(const Run& run, Checkpoint& first, Checkpoint& like) {
    like.keeps_others = run.job.run.copies_template;
    like.root = like.given;
    if (name_in_template(like, like.location.directory).starts_with("..")) {
        like.root = like.location.directory;
    }
    tell_survey(run, like.root.string(), like);
    mpi::collectively(run.comm, [&] { require_no_other_weights(like); });
    put_files_behind(first, like);
    mpi::collectively(run.comm, [&] {
        if (run.comm.rank() == first.home) {
            like.assets = assets_of(like);
        }
    });
}

/// Reads the checkpoints; the files of all stand behind those of the first.
void read_checkpoints(const Run& run, Merge& merge) {
    const RankMemory memory = RankMemory::measured_at_start();
    Checkpoint& first = merge.weights();
    for (Checkpoint& one : merge.inputs) {
        if (one.role == formats::Role::base && !is_base_of_adapter(run, merge)) {
            continue;
        }
        read_shown(run, one);
        switch (one.role) {
            case formats::Role::weights:
                merge.holds_adapter_only = app::holds_adapter_only(first.catalogue);
                break;
            case formats::Role::base:
                mpi::collectively(run.comm, [&] { add_base(first, one); });
                break;
            case formats::Role::mixed:
                if (run.report->mixed.empty()) {
                    run.report->mixed = {{report_of(first)}};
                }
                tell_survey(run, one.given.string(), one);
                run.report->mixed.push_back({report_of(one)});
                put_files_behind(first, one);
                break;
            case formats::Role::like:
                add_template(run, first, one);
                break;
            case formats::Role::supplement:
            case formats::Role::compared:
                tell_survey(run, one.given.string(), one);
                put_files_behind(first, one);
                break;
        }
    }
    merge.input = input_of(first, memory, run.job.run.check_crc == CheckCrc::during,
                           std::span(merge.inputs).subspan(1));
    // What is read of these goes on with the outputs' models.
    for (; merge.inputs.back().role >= formats::Role::like; merge.inputs.pop_back()) {
        Checkpoint& last = merge.inputs.back();
        (last.role == formats::Role::like ? merge.like : merge.supplement) =
            std::make_shared<const Checkpoint>(std::move(last));
    }
}

void report_survey(const Run& run, const Merge& read) {
    const catalogue::Catalogue& catalogue = read.weights().catalogue;
    say_checkpoint(run.log, run.job, read.weights());
    tell_notes(run.log, catalogue);
    run.log.debug("read the metadata of " + counted(catalogue.files.size(), "shard file") + ": " +
                  counted(catalogue.tensors.size() + catalogue.shards.size(), "stored tensor"));
    run.log.debug("provenance " + catalogue::text_of(read.weights().provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(run, Warning{code, "", text});
    }
    run.report->input = report_of(read.weights());
    run.report->metadata_reads = read.input.n_reads;
    run.watch->lap("survey");
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
ModelFiles settled_files(const Run& run, const Merge& merge, std::optional<ModelFiles> early) {
    const Checkpoint& checkpoint = merge.weights();
    const Lora lora = model_choice(run.job, merge.first().asked(), merge.is_written).lora;
    const bool is_needed = !is_adapter_alone(lora, checkpoint.catalogue);
    const formats::Location location = with_own_tokenizer(checkpoint);
    const bool is_known = early && location.tokenizer_directory.has_value() ==
                                       checkpoint.location.tokenizer_directory.has_value();
    std::optional<formats::Location> base;
    if (run.job.model.base && merge.holds_adapter_only) {
        base = merge.inputs[1].location;
    }
    const auto complete = [&] {
        ModelFiles files = is_known ? std::move(*early)
                                    : read_model_files(run.job, location, base, is_needed,
                                                       run.job.inputs.front().directory);
        if (is_needed) {
            require_config(files, run.job, checkpoint.location);
        }
        if (is_needed && merge.is_written) {
            require_readable(files);
        }
        return files;
    };
    return mpi::share(run.comm, merge.input.home, complete);
}

}  // namespace

void find_inputs(const Run& run, Merge& merge) {
    for (const formats::JobInput& asked : run.job.inputs) {
        merge.inputs.push_back(find_shown(run, asked));
    }
    if (!run.job.model.base) {
        merge.model_files = early_files(run, merge);
    }
}

void check_sums(const Run& run, Merge& merge) {
    for (Checkpoint& one : merge.inputs) {
        if (one.role != formats::Role::like) {
            check_sums_shown(run, one);
        }
    }
}

void read_inputs(const Run& run, Merge& merge) {
    read_checkpoints(run, merge);
    report_survey(run, merge);
    merge.model_files = settled_files(run, merge, std::exchange(merge.model_files, {}));
}

}  // namespace shardweld::app
