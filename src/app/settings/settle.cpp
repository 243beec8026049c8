#include "settle.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/encoding.hpp"
#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "reshape/destination.hpp"

#include "option_table.hpp"
#include "typed_words.hpp"

namespace shardweld::app {

namespace {

void check_mesh(const formats::Mesh& mesh) {
    if (mesh.names.empty() != mesh.shape.empty()) {
        refuse("--mesh_dim_names and --mesh_shape belong together", "give both");
    }
    if (mesh.names.size() != mesh.shape.size()) {
        refuse("--mesh_dim_names has " + std::to_string(mesh.names.size()) +
                   " names but --mesh_shape " + std::to_string(mesh.shape.size()) + " numbers",
               "give as many names as numbers");
    }
}

void check_repository(const Options& options) {
    const bool is_of_hub = options.is_private || options.hf_cli || !options.revision.empty();
    if (options.upload_path.empty() && is_of_hub) {
        refuse("no repository is given", "add --hf_upload_path ORG/NAME");
    }
}

void check_needs(const Options& options) {
    const bool has_report = options.report || options.keeps_report;
    if (options.sha256 && !has_report && options.command != Command::verify) {
        refuse("--sha256 needs a report, which holds the checksums", "add --report FILE");
    }
    if (options.command == Command::test && options.reference.empty()) {
        refuse("test needs a model to compare with", "give --test_hf_dir DIR");
    }
    check_repository(options);
}

/// Error(usage) where other models would be made of a GGUF file.
void check_first_model(const std::vector<OutputRequest>& outputs) {
    const auto is_model = [](const OutputRequest& output) { return !output.is_training(); };
    const auto first = std::ranges::find_if(outputs, is_model);
    if (std::ranges::count_if(outputs, is_model) < 2 || !becomes_gguf(first->quantise)) {
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
void check_also(const Options& options) {
    if (options.also.empty()) {
        return;
    }
    if (options.averaging.is_average || options.averaging.base) {
        refuse("--also is not for several checkpoints", "merge once for each output");
    }
    if (options.output_format != &outputs::default_format()) {
        refuse("--also writes safetensors only", "leave --output_format out");
    }
    const std::vector<OutputRequest> outputs = output_requests(options);
    check_first_model(outputs);
    std::vector<std::tuple<std::optional<Encoding>, std::optional<DType>, std::string>> forms;
    for (const OutputRequest& output : outputs) {
        const auto form = std::tuple(output.quantise, output.dtype, output.form);
        if (std::ranges::count(forms, form) > 0) {
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
bool is_about_model_beside(std::string_view name, const std::vector<OutputRequest>& outputs) {
    const bool has_model = !std::ranges::all_of(outputs, &OutputRequest::is_training);
    return has_model && (name == "max_shard_size" || name == "quantize_ignore");
}

/// --like says what --to and --dtype would.
void require_like(const Arguments& arguments, const Options& options) {
    const bool is_like = !reshape::template_in(options.form).empty();
    if (arguments.has("like") && arguments.has("to")) {
        refuse("--to and --like exclude each other",
               "give --like alone: it says what form to write");
    }
    if (arguments.has("like_only_weights") && !is_like) {
        refuse("--like_only_weights needs --like", "add it, or leave both out");
    }
    if (is_like && arguments.has("dtype")) {
        refuse("--dtype and --like exclude each other",
               "leave --dtype out: the template says in which type each tensor is written");
    }
}

/// States are carried over as they are, all of them, and from one checkpoint.
void require_state(const Arguments& arguments, const Options& options) {
    if (options.state == formats::TakenState::weights) {
        return;
    }
    for (const char* const name : {"average", "delta", "quantize", "include", "exclude", "dtype",
                                   "like", "also", "base", "supplement", "vocab_size"}) {
        if (arguments.has(name)) {
            refuse(std::string("--state and --") + name +
                       " exclude each other: an optimizer's states belong to all weights as they "
                       "were trained",
                   "leave one of them out");
        }
    }
}

/// Error(usage) for --supplement with an average or a difference, which have no reference, and with
/// --base, since an adapter's base is whole.
void require_supplement_alone(const Arguments& arguments) {
    if (!arguments.has("supplement")) {
        return;
    }
    for (const char* const name : {"average", "delta", "base"}) {
        if (arguments.has(name)) {
            refuse(std::string("--supplement and --") + name + " exclude each other",
                   "write the model first, and complete it in a second run with --supplement");
        }
    }
}

/// A training checkpoint has one form, in which weights are as training holds them.
void check_form(const Arguments& arguments, const Options& options) {
    require_like(arguments, options);
    require_state(arguments, options);
    require_supplement_alone(arguments);
    const std::vector<OutputRequest> outputs = output_requests(options);
    for (const OutputRequest& output : outputs) {
        if (!output.is_training()) {
            continue;
        }
        (void)reshape::parse_destination(output.form);
        if (&output != &outputs.front() && !reshape::template_in(output.form).empty()) {
            refuse("only the first output of several can be like a template",
                   "write it first, and the others beside it");
        }
        for (const char* const name : {"include", "exclude"}) {
            if (arguments.has(name)) {
                refuse_beside_form(name, output.form);
            }
        }
    }
    if (options.form.empty()) {
        return;
    }
    for (const OptionRow& row : option_rows()) {
        if (row.is_of_finished() && arguments.has(row.name) &&
            !is_about_model_beside(row.name, outputs)) {
            refuse_beside_form(row.name, options.form);
        }
    }
    if (!options.gguf_file.empty()) {
        refuse("the target " + options.gguf_file + " is a file, and --to " +
                   printable(options.form) + " writes a directory",
               "name a directory");
    }
}

/// A target appears when all is written, and logs are written from the start.
void check_log_dir(const Options& options) {
    if (!options.log_dir || options.command != Command::merge) {
        return;
    }
    const fs::path logs = io::resolved(*options.log_dir);
    for (const OutputRequest& output : output_requests(options)) {
        if (!output.directory.empty() && io::is_within(logs, io::resolved(output.directory))) {
            refuse("--log_dir " + printable(options.log_dir->string()) +
                       " lies in the target directory, which appears only when all is written",
                   "name a directory outside of it");
        }
    }
}

void check_loudness(const Arguments& arguments) {
    if (arguments.has("verbose") && arguments.has("quiet")) {
        refuse("--verbose and --quiet exclude each other", "give one of them");
    }
}

void check_quantise(const Arguments& arguments, const Options& options) {
    const bool is_ggml = becomes_gguf(options.quantise);
    if (!options.gguf_file.empty() && !is_ggml) {
        refuse("--quantize " + std::string(facts_of(*options.quantise).name) +
                   " is not a type of GGUF files, and the target " + options.gguf_file + " is one",
               "give --quantize gguf:q8_0 or another one of gguf:*, or name a directory");
    }
    if (options.quantise && options.output_format != &outputs::default_format()) {
        refuse("--quantize writes safetensors or, with gguf:*, GGUF", "leave --output_format out");
    }
    if (is_ggml && options.command == Command::test) {
        refuse("--quantize " + std::string(facts_of(*options.quantise).name) +
                   " writes llama.cpp's names, which no model directory has",
               "compare what is written without it");
    }
    if (is_ggml && arguments.has("max_shard_size")) {
        refuse("a GGUF model is one file", "leave --max_shard_size out");
    }
}

/// After all options are read. Error(usage).
void check_together(const Arguments& arguments, const Options& options) {
    check_mesh(options.mesh);
    check_averaging(options.averaging);
    check_needs(options);
    if (options.max_readers > 0 && options.strategy == plan::Strategy::direct) {
        refuse("--strategy direct lets every rank read",
               "leave out one of --strategy and --max_readers");
    }
    if (options.resume && options.restart) {
        refuse("--resume and --restart exclude each other", "give one of them");
    }
    check_quantise(arguments, options);
    const bool quantises = options.quantise || std::ranges::any_of(options.also, [](auto& also) {
                               return also.quantise.has_value();
                           });
    if (options.quantise_ignore && !quantises) {
        refuse("--quantize_ignore needs --quantize", "add it, or leave both out");
    }
    check_also(options);
    check_form(arguments, options);
    check_log_dir(options);
    check_loudness(arguments);
}

/// GGML's type at the end of a file's name, "x-q8_0" or "x.F16"; else the narrowest that keeps what
/// --dtype asks for. Error(usage) for types that are not written.
Encoding gguf_type_for(const std::string& stem, std::optional<DType> dtype) {
    const std::string word = in_small_letters(stem.substr(stem.find_last_of("-.") + 1));
    if (const auto named = encoding_from("gguf:" + (word == "fp16" ? "f16" : word))) {
        return *named;
    }
    const bool is_k_quant = word.size() > 3 && word.find('_') != std::string::npos &&
                            (word.starts_with("iq") || (word[0] == 'q' && is_digit(word[1])));
    if (is_k_quant) {
        refuse(printable(stem) + ".gguf names a type that shardweld does not write",
               value_guess("quantize", word, encoding_names()));
    }
    return dtype == DType::f16   ? Encoding::gguf_f16
           : dtype == DType::f32 ? Encoding::gguf_f32
                                 : Encoding::gguf_bf16;
}

/// A target that is named as a file: OUT.gguf is written into a directory of its name, with the
/// files that belong to it; other files are no targets. Error(usage).
void take_file_target(Options& options) {
    const fs::path file = options.target_dir;
    const std::string ending = in_small_letters(file.extension().string());
    std::error_code failed;  // what cannot be examined is told when the target is checked
    if (options.has_target && file.empty()) {
        refuse("--target_dir is empty", "name the directory to write");
    }
    if (!options.has_target || fs::is_directory(file, failed)) {
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
    if (!options.quantise) {
        options.quantise = gguf_type_for(file.stem().string(), options.dtype);
    }
    options.gguf_file = file.filename().string();
    options.target_dir = file.parent_path() / file.stem();
    const std::string_view type = facts_of(*options.quantise).name;
    options.remarks.push_back(
        "writes " + printable((options.target_dir / options.gguf_file).string()) + " as " +
        std::string(type) + ", and config.json and the tokenizer beside it" +
        (options.quantise == Encoding::gguf_bf16 ? "; --quantize gguf:q8_0 makes half of it" : ""));
}

/// verl's default is for those who ask for verl's ways.
void require_target(const Options& options) {
    const bool writes = options.command == Command::merge;
    if (writes && !options.has_target && !options.is_verl) {
        refuse("no target is given", "name the directory to write: shardweld merge " +
                                         process::shell_word(options.local_dir.string()) + " OUT");
    }
}

void read_options(const Arguments& arguments, Options& options) {
    for (const OptionRow& row : option_rows()) {
        if (const auto given = arguments.values.find(row.name); given != arguments.values.end()) {
            row.set({row.name, given->second}, options);
        }
    }
}

void require_directories(const CommandRow& command, const Options& options) {
    if (command.command == Command::recipes) {
        return;
    }
    if (command.command == Command::diff && options.reference.empty() && !options.base) {
        refuse("two directories are needed", "usage: " + std::string(command.usage));
    }
    if (options.local_dir.empty()) {
        refuse("no directory is given", "usage: " + std::string(command.usage));
    }
}

/// An option as given; directories of one file system have other names on other nodes. A list
/// tells more than directories.
std::string text_of(const OptionRow& row, const std::string& value) {
    const bool is_path = row.is_path(value) && !row.is_repeated;
    return "--" + std::string(row.name) + (is_path ? "" : " " + value);
}

/// What all ranks must be given alike, as one text (Options::shared): the command and its
/// options, but not which path one names, nor how much is told.
std::string shared_text(const CommandRow& command, const Arguments& arguments) {
    std::string text(command.name);
    for (std::size_t i = 0; i < arguments.checkpoints.size(); ++i) {
        text += "\nanother checkpoint";  // which may be called otherwise on other nodes
    }
    for (const auto& [name, value] : arguments.values) {
        const OptionRow& row = *find_option(name);
        if (row.touches != Touches::loudness) {
            text += "\n" + text_of(row, value);
        }
    }
    return text;
}

/// Options::output_options: "--dtype bf16", and of a path only that it is given. They are written
/// down in reports, model cards and journals.
std::vector<std::string> output_texts(const Arguments& arguments) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : arguments.values) {
        const OptionRow& row = *find_option(name);
        if (row.touches == Touches::output) {
            texts.push_back(without_secrets(text_of(row, value)));
        }
    }
    return texts;
}

}  // namespace

bool converts(const Options& options) {
    constexpr std::array<std::string_view, 10> kForms = {
        "--dtype",      "--quantize",  "--output_format", "--max_shard_size",
        "--vocab_size", "--include",   "--exclude",       "--to",
        "--like",       "--supplement"};
    return !options.also.empty() ||
           std::ranges::any_of(options.output_options, [&](const std::string& text) {
               return std::ranges::count(kForms, text.substr(0, text.find(' '))) > 0;
           });
}

std::vector<OutputRequest> output_requests(const Options& options) {
    const auto& report = options.report;
    std::vector<OutputRequest> outputs{{options.target_dir, options.quantise, options.dtype, report,
                                        options.gguf_file, options.keeps_report, options.form}};
    for (const OutputRequest& also : options.also) {
        const std::string number = std::to_string(outputs.size());
        OutputRequest& output = outputs.emplace_back(also);
        output.dtype = also.dtype ? also.dtype : options.dtype;
        output.keeps_report = options.keeps_report;
        if (report) {
            output.report = report->parent_path() / (report->stem().string() + ".also-" + number +
                                                     report->extension().string());
        }
    }
    return outputs;
}

Options settled(Options options, const CommandRow& command, const Arguments& given) {
    read_options(given, options);
    options.keeps_report = options.keeps_report && !options.is_verl;
    require_directories(command, options);
    take_file_target(options);
    if (command.needs_form && !given.has("to") && !given.has("like")) {
        refuse(std::string(command.name) + " needs the form to write",
               "give --to torch_dist, --to legacy:tp=8,pp=4, --to fsdp:world=16, --to dcp or --to "
               "hf, or a checkpoint to be like with --like DIR");
    }
    check_together(given, options);
    require_target(options);
    options.shared = shared_text(command, given);
    options.output_options = output_texts(given);
    if (!options.gguf_file.empty() && !given.has("quantize")) {
        const std::string type(facts_of(*options.quantise).name);
        options.shared += "\n--quantize " + type;
        options.output_options.push_back("--quantize " + type);
    }
    return options;
}

}  // namespace shardweld::app
