#include "settle.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "numeric/encoding.hpp"
#include "process/process.hpp"
#include "reshape/destination.hpp"

#include "option_table.hpp"
#include "typed_words.hpp"

namespace shardweld::app {

namespace {

void check_mesh(const formats::Mesh& mesh) {
    if (mesh.names.size() != mesh.shape.size()) {
        refuse("--mesh_dim_names has " + std::to_string(mesh.names.size()) +
                   " names but --mesh_shape " + std::to_string(mesh.shape.size()) + " numbers",
               "give as many names as numbers");
    }
}

/// The others have the first one's type where they name none, and reports beside its report, with
/// "also-1" and so on before the ending, or in their directories.
void complete_outputs(std::vector<JobOutput>& outputs) {
    const JobOutput& first = outputs.front();
    for (std::size_t i = 1; i < outputs.size(); ++i) {
        JobOutput& output = outputs[i];
        output.dtype = output.dtype ? output.dtype : first.dtype;
        output.keeps_report = first.keeps_report;
        if (const auto& report = first.report) {
            output.report =
                report->parent_path() / (report->stem().string() + ".also-" + std::to_string(i) +
                                         report->extension().string());
        }
    }
}

/// Puts what is read beside the first checkpoint in its order: the base of an adapter, those that
/// are mixed (the base of --task_arithmetic first), the template, and the model that has what is
/// lacking.
void complete_inputs(Job& job) {
    const std::vector<formats::JobInput> given = std::exchange(job.inputs, {job.inputs.front()});
    const formats::JobInput first = given.front();
    const auto add = [&](formats::Role use, const fs::path& directory, formats::JobInput how) {
        how.use = use;
        how.directory = directory;
        how.check_crc = first.check_crc;
        job.inputs.push_back(std::move(how));
    };
    formats::JobInput model;
    model.wants_model = true;
    if (job.model.base) {
        formats::JobInput base = model;
        base.backend = "hf";
        add(formats::Role::base, *job.model.base, base);
    }
    if (job.model.averaging.base) {
        add(formats::Role::mixed, *job.model.averaging.base, first);
    }
    for (auto other = given.begin() + 1; other != given.end(); ++other) {
        add(formats::Role::mixed, other->directory, first);
    }
    if (const auto like = reshape::template_in(job.outputs.front().form); !like.empty()) {
        add(formats::Role::like, like, {});
    }
    if (!job.model.supplement.empty()) {
        add(formats::Role::supplement, job.model.supplement, model);
    }
    job.model.averaging.n_checkpoints = given.size();
}

/// Error(usage) where other models would be made of a GGUF file.
void check_first_model(const std::vector<JobOutput>& outputs) {
    const auto is_model = [](const JobOutput& output) { return !output.is_training(); };
    const auto first = std::ranges::find_if(outputs, is_model);
    if (std::ranges::count_if(outputs, is_model) < 2 || !first->ggml()) {
        return;
    }
    const std::string form(facts_of(*first->quantise).name);
    refuse("the first model of several is no GGUF file, whose tensors are made of the model's",
           first == outputs.begin()
               ? "leave --quantize out and give --also " + first->directory.string() + ":" + form +
                     " beside another --target_dir"
               : "give the other model before --also " + first->directory.string() + ":" + form);
}

/// One product is made once: the same bytes twice are a copy.
void check_also(const std::vector<JobOutput>& outputs) {
    check_first_model(outputs);
    std::vector<std::tuple<std::optional<Encoding>, std::optional<DType>, std::string>> forms;
    for (const JobOutput& output : outputs) {
        const auto form = std::tuple(output.quantise, output.dtype, output.form);
        if (contains(forms, form)) {
            refuse(
                "--also " + printable(output.directory.string()) + " is the same as another output",
                "copy that one, or give another form: DIR:fp8-block, DIR:bf16, DIR:torch_dist");
        }
        forms.push_back(form);
    }
}

[[noreturn]] void refuse_beside_form(std::string_view name, const std::string& form) {
    const bool is_selection = name == "include" || name == "exclude";
    refuse("--" + std::string(name) + " is not for training checkpoints (--to " + printable(form) +
               ")" + (is_selection ? ", which hold whole models" : ""),
           "leave it out, or write a HuggingFace model: --to hf");
}

/// Whether an option about finished models is about one that is written beside a training
/// checkpoint.
bool is_about_model_beside(std::string_view name, const std::vector<JobOutput>& outputs) {
    const bool has_model = !std::ranges::all_of(outputs, &JobOutput::is_training);
    return has_model && (name == "max_shard_size" || name == "quantize_ignore");
}

/// A training checkpoint has one form, in which weights are as training holds them.
void check_form(const Job& job) {
    const std::vector<JobOutput>& outputs = job.outputs;
    for (const JobOutput& output : outputs) {
        if (!output.is_training()) {
            continue;
        }
        (void)reshape::parse_destination(output.form);
        if (&output != &outputs.front() && !reshape::template_in(output.form).empty()) {
            refuse("only the first output of several can be like a template",
                   "write it first, and the others beside it");
        }
        for (const char* const name : {"include", "exclude"}) {
            if (job.has(name)) {
                refuse_beside_form(name, output.form);
            }
        }
    }
    if (job.outputs.front().form.empty()) {
        return;
    }
    for (const OptionRow& row : option_rows()) {
        if (row.is_of_finished() && job.has(row.name) &&
            !is_about_model_beside(row.name, outputs)) {
            refuse_beside_form(row.name, job.outputs.front().form);
        }
    }
    if (!job.outputs.front().gguf_file.empty()) {
        refuse("the target " + job.outputs.front().gguf_file + " is a file, and --to " +
                   printable(job.outputs.front().form) + " writes a directory",
               "name a directory");
    }
}

/// A target appears when all is written, and logs are written from the start.
void check_log_dir(const Job& job) {
    if (!job.run.log_dir || job.command != Command::merge) {
        return;
    }
    const fs::path logs = io::resolved(*job.run.log_dir);
    for (const JobOutput& output : job.outputs) {
        if (!output.directory.empty() && io::is_within(logs, io::resolved(output.directory))) {
            refuse("--log_dir " + printable(job.run.log_dir->string()) +
                       " lies in the target directory, which appears only when all is written",
                   "name a directory outside of it");
        }
    }
}

/// Error(usage) for an encoding that the target's name excludes, and for names of weights that none
/// is asked for.
void check_quantise(const Job& job) {
    const std::optional<Encoding>& quantise = job.outputs.front().quantise;
    if (!job.outputs.front().gguf_file.empty() && !job.outputs.front().ggml()) {
        refuse("--quantize " + std::string(facts_of(*quantise).name) +
                   " is not a type of GGUF files, and the target " + job.outputs.front().gguf_file +
                   " is one",
               "give --quantize gguf:q8_0 or another one of gguf:*, or name a directory");
    }
    const auto quantises = [](auto& output) { return output.quantise.has_value(); };
    if (job.model.quantise_ignore && std::ranges::none_of(job.outputs, quantises)) {
        refuse("--quantize_ignore needs --quantize", "add it, or leave both out");
    }
}

/// GGML's type at the end of a file's name, "x-q8_0" or "x.F16"; else the narrowest that keeps what
/// --dtype asks for. Error(usage) for types that are not written.
Encoding gguf_type_for(const std::string& stem, std::optional<DType> dtype) {
    const std::string word = in_small_letters(stem.substr(stem.find_last_of("-.") + 1));
    if (const auto named = encoding_from("gguf:" + (word == "fp16" ? "f16" : word))) {
        return *named;
    }
    const bool is_k_quant = word.size() > 3 && has_part(word, '_') &&
                            (word.starts_with("iq") || (word[0] == 'q' && is_digit(word[1])));
    if (is_k_quant) {
        refuse(printable(stem) + ".gguf names a type that shardweld does not write",
               value_guess("quantize", word, encoding_names()));
    }
    return ggml_type_of(dtype.value_or(DType::bf16)).value();
}

/// A target that is named as a file: OUT.gguf is written into a directory of its name, with the
/// files that belong to it, and of the type that --quantize says or that is put into `given`; other
/// files are no targets. Error(usage).
void take_file_target(Job& job, GivenTexts& given) {
    const fs::path file = job.outputs.front().directory;
    const std::string ending = in_small_letters(file.extension().string());
    std::error_code failed;  // what cannot be examined is told when the target is checked
    if (!job.has("target_dir") || fs::is_directory(file, failed) || job.command == Command::mount) {
        return;
    }
    if (ending == ".h5" || ending == ".hdf5" || ending == ".safetensors" || ending == ".bin" ||
        ending == ".pt" || ending == ".pth") {
        refuse("the target " + printable(file.string()) +
                   " is named as a file, and a directory is written",
               "name the directory: " + (file.parent_path() / file.stem()).string() +
                   (ending[1] == 'h' ? " --output_format hdf5" : ""));
    }
    if (ending != ".gguf" || file.stem().empty()) {
        return;
    }
    JobOutput& output = job.outputs.front();
    if (!output.quantise) {
        output.quantise = gguf_type_for(file.stem().string(), output.dtype);
    }
    output.gguf_file = file.filename().string();
    output.directory = file.parent_path() / file.stem();
    const std::string type(facts_of(*output.quantise).name);
    given.emplace("quantize", type);
    job.remarks.push_back("writes " + printable((output.directory / output.gguf_file).string()) +
                          " as " + type + ", and config.json and the tokenizer beside it" +
                          (output.quantise == ggml_type_of(DType::bf16)
                               ? "; --quantize gguf:q8_0 makes half of it"
                               : ""));
}

/// Error(usage) where a directory that the command cannot do without is not given.
void require_directories(const CommandRow& command, const Job& job) {
    const auto require = [](bool is_given, const std::string& what, const std::string& hint) {
        if (!is_given) {
            refuse(what, hint);
        }
    };
    const std::string usage = "usage: " + std::string(command.usage);
    const bool is_diff = command.command == Command::diff;
    require(!is_diff || !job.run.reference.empty() || job.model.base, "two directories are needed",
            usage);
    require(!job.inputs.front().directory.empty(), "no directory is given", usage);
    require(!job.has("target_dir") || !job.outputs.front().directory.empty(),
            "--target_dir is empty", "name the directory to write");
    require(!command.needs_form || job.outputs.front().is_training() || job.has("to"),
            std::string(command.name) + " needs the form to write",
            "give --to torch_dist, --to legacy:tp=8,pp=4, --to fsdp:world=16, --to dcp or --to hf, "
            "or a checkpoint to be like with --like DIR");
    require(command.command != Command::test || !job.run.reference.empty(),
            "test needs a model to compare with", "give --test_hf_dir DIR");
    require(
        !job.run.sha256 || job.outputs.front().is_reported() || command.command == Command::verify,
        "--sha256 needs a report, which holds the checksums", "add --report FILE");
}

/// verl's default is for those who ask for verl's ways.
void require_target(const Job& job) {
    if (job.command == Command::merge && !job.has("target_dir") && !job.run.is_verl) {
        refuse("no target is given",
               "name the directory to write: shardweld merge " +
                   process::shell_word(job.inputs.front().directory.string()) + " OUT");
    }
    if (job.command == Command::mount && !job.has("target_dir")) {
        refuse("no mount point is given", "usage: " + std::string(row_for(job.command).usage));
    }
    if (job.run.is_daemon && !job.run.program.empty()) {
        refuse("--daemon and a command exclude each other: the mount ends with the command",
               "leave one of them out");
    }
}

/// An option as given; directories of one file system have other names on other nodes. A list
/// tells more than directories.
std::string text_of(const OptionRow& row, const std::string& value) {
    const bool is_path = row.is_path(value) && !row.is_repeated;
    return "--" + std::string(row.name) + (is_path ? "" : " " + value);
}

/// Puts together what all ranks must be given alike: the command and its options, but not which
/// path one names, nor how much is told; and what a later run must be given alike, which is written
/// down in reports, model cards and journals.
void keep_texts(const CommandRow& command, const GivenTexts& given, Job& job) {
    job.shared = command.name;
    for (std::size_t i = 1; i < job.model.averaging.n_checkpoints; ++i) {
        job.shared += "\nanother checkpoint";  // which may be called otherwise on other nodes
    }
    for (const auto& [name, value] : given) {
        const OptionRow& row = *find_option(name);
        const std::string text = text_of(row, value);
        if (row.touches != Touches::loudness) {
            job.shared += "\n" + text;
        }
        if (row.touches == Touches::output) {
            job.output_options.push_back(without_secrets(text));
        }
    }
}

/// Whether it was asked for another form of a model, which may be a finished one.
bool asks_for_form(const GivenTexts& given) {
    constexpr std::array<std::string_view, 11> kForms = {
        "dtype",   "quantize", "output_format", "max_shard_size", "vocab_size", "include",
        "exclude", "to",       "like",          "supplement",     "also"};
    return std::ranges::any_of(kForms, [&](auto name) { return given.contains(name); });
}

}  // namespace

void add_checkpoint(const fs::path& directory, Job& job) {
    job.inputs.push_back({});
    job.inputs.back().directory = directory;
}

void put_values(const GivenTexts& given, const std::vector<OptionRow>& rows, Job& job) {
    for (const OptionRow& row : rows) {
        if (auto* const found = find_value(given, row.name)) {
            row.set.put({row.name, *found}, job);
        }
    }
}

Job settled(Job job, const CommandRow& command) {
    job.outputs.front().keeps_report =
        job.outputs.front().keeps_report && !job.run.is_verl && !job.has("report");
    job.inputs.front().check_crc = job.run.check_crc != CheckCrc::off;
    GivenTexts given = job.given;
    if (command.command != Command::recipes) {
        require_directories(command, job);
        take_file_target(job, given);
    }
    complete_outputs(job.outputs);
    job.inputs.front().wants_model = job.model.averaging.is_asked() || asks_for_form(given) ||
                                     command.command == Command::inspect;
    complete_inputs(job);
    if (job.run.n_ranks < 1 || job.run.n_ranks > kMostRanks) {
        refuse("--ranks " + std::to_string(job.run.n_ranks) + " is too " +
                   (job.run.n_ranks < 1 ? "few" : "many"),
               "give at least 1 and at most " + std::to_string(kMostRanks));
    }
    check_relations(given);
    check_mesh(job.inputs.front().mesh);
    check_averaging(job.model.averaging);
    check_quantise(job);
    check_also(job.outputs);
    check_form(job);
    check_log_dir(job);
    require_target(job);
    keep_texts(command, given, job);
    return job;
}

std::vector<std::string> output_options(const Job& job, const JobOutput& output) {
    std::vector<std::string> texts = job.output_options;
    for (const OptionRow& row : option_rows()) {
        const std::string form = row.touches == Touches::form ? row.set.spell(output) : "";
        if (!form.empty()) {
            texts.push_back("--" + std::string(row.name) + " " + form);
        }
    }
    std::ranges::sort(texts);
    return texts;
}

}  // namespace shardweld::app
