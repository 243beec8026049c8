#include "option_table.hpp"

#include <algorithm>
#include <array>

#include "special_values.hpp"

namespace shardweld::app {

namespace {

void ignore_option(const Given& /*given*/, Options& /*options*/) {}

void note_ignored(const Given& given, Options& options) {
    options.notes.push_back("--" + std::string(given.name) +
                            " has no effect: no model is built and no code is run");
}

void set_older_config(const Given& given, Options& options) {
    if (options.hf_config) {
        refuse("--hf_config and --hf_model_path mean the same", "give one of them");
    }
    options.hf_config = given.text;
    options.notes.emplace_back("--hf_model_path means --hf_config");
}

void set_verl(const Given& /*given*/, Options& options) {
    options.is_verl = true;
    options.dtype = options.dtype.value_or(DType::bf16);
}

void set_target(const Given& given, Options& options) {
    options.target_dir = given.text;
    options.has_target = true;
}

void set_verbose(const Given& /*given*/, Options& options) {
    options.log_level = LogLevel::debug;
}

void set_quiet(const Given& /*given*/, Options& options) {
    options.is_quiet = true;
    options.log_level = LogLevel::error;
}

/// What --sbatch, --nodes and --rate are about; without the first, check_together refuses it.
JobRequest& job_of(Options& options) {
    return options.job ? *options.job : options.job.emplace();
}

void set_sbatch(const Given& /*given*/, Options& options) {
    (void)job_of(options);
}

void set_nodes(const Given& given, Options& options) {
    job_of(options).n_nodes = n_nodes_in(given);
}

void set_rate(const Given& given, Options& options) {
    job_of(options).rate = size_in(given);
}

Words<const outputs::Format*> output_formats() {
    Words<const outputs::Format*> words;
    for (const outputs::Format* const format : outputs::all_formats()) {
        words.emplace_back(format->name(), format);
    }
    return words;
}

/// "auto (default), fsdp or dcp"
std::string choice_help(const std::string& first, const std::vector<std::string>& others) {
    std::vector<std::string> words{first + " (default)"};
    words.insert(words.end(), others.begin(), others.end());
    return joined(words, " or ");
}

std::string output_format_help() {
    std::vector<std::string> others;
    for (const outputs::Format* const format : outputs::all_formats()) {
        if (format != &outputs::default_format()) {
            others.emplace_back(format->name());
        }
    }
    return choice_help(std::string(outputs::default_format().name()), others);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<OptionRow>& option_rows() {
    constexpr unsigned kWrite = kMerge | kPlan;
    constexpr unsigned kModel = kWrite | kTest;
    constexpr unsigned kInput = kModel | kInspect;
    static const std::string backend = choice_help("auto", formats::backends());
    static const std::string output_format = output_format_help();
    static const std::vector<OptionRow> rows = {
        {"local_dir", 0, "DIR", kInput | kVerify, "Input",
         "checkpoint: a step, iteration or shard directory; verify: the model that was written",
         Touches::input, text(&Options::local_dir)},
        {"backend", 0, "NAME", kInput, "Input", backend, Touches::output,
         Setter(value(&Options::backend, backend_in), backend_words())},
        {"hf_config", 0, "DIR", kInput, "Input",
         "directory with config.json and the tokenizer; needed if the checkpoint has none",
         Touches::input, text(&Options::hf_config)},
        {"hf_model_path", 0, "DIR", kInput, "", "older name of --hf_config", Touches::input,
         set_older_config},
        {"iteration", 0, "N", kInput, "Input", "iteration to merge, if there are several",
         Touches::output, number(&Options::iteration, 0)},
        {"role", 0, "NAME", kInput, "Input", "actor or critic, if there are both", Touches::output,
         word(&Options::role, {{"actor", "actor"}, {"critic", "critic"}})},
        {"topic", 0, "NAME", kRecipes, "", "the family to print", Touches::run,
         text(&Options::topic)},
        {"recipe", 0, "FILE", kModel | kRecipes, "Input",
         "recipe or dialect file to add to the built-in ones", Touches::output,
         text(&Options::recipe)},
        {"mesh_dim_names", 0, "LIST", kInput, "Input",
         "FSDP: names of the device mesh's dims, e.g. ddp,fsdp, if the files have them wrong",
         Touches::output, value(&Options::mesh, &formats::Mesh::names, names_in)},
        {"mesh_shape", 0, "LIST", kInput, "Input", "FSDP: sizes of these dims, e.g. 2,4",
         Touches::output, value(&Options::mesh, &formats::Mesh::shape, extents_in)},
        {"prefix", 0, "TEXT", kInput, "Input",
         "DCP: merge only the part of the state dict below TEXT, and strip TEXT from names",
         Touches::output, text(&Options::prefix)},
        {"weights", 0, "KIND", kInput, "Input",
         "DeepSpeed: master (the optimizer's fp32 weights, default where they are) or model (the "
         "module's)",
         Touches::output,
         word(&Options::weights,
              {{"master", formats::WeightsFrom::master}, {"model", formats::WeightsFrom::model}})},
        {"check_crc", 0, "[before|during|off]", kInput | kDiff, "Input",
         "check the CRC-32 of torch's records: as they are read (during, default), in an extra "
         "pass before writing (before, or no value) or not at all (off)",
         Touches::run,
         word(&Options::check_crc,
              {{"before", CheckCrc::before}, {"during", CheckCrc::during}, {"off", CheckCrc::off}}),
         JobSteps::merge},
        {"max_open", 0, "N", kModel, "Input", "input files that a rank keeps open (default 64)",
         Touches::run, number(&Options::max_open, 1)},

        {"target_dir", 0, "DIR", kWrite, "Output", "directory to write (default tmp)", Touches::run,
         set_target},
        {"overwrite", 0, "", kWrite, "Output", "replace a target that is not empty", Touches::run,
         flag(&Options::overwrite)},
        {"dtype", 0, "TYPE", kModel, "Output",
         "write floats as bf16, fp16 or fp32 (default: as stored); torch's names are fine too",
         Touches::output, value(&Options::dtype, dtype_in)},
        {"verl", 0, "", kModel, "Output",
         "write what verl 0.9.1's merger writes: bf16 unless --dtype says otherwise, and a "
         "generation_config.json where there is none",
         Touches::output, set_verl},
        {"max_shard_size", 0, "SIZE", kWrite | kIobench, "Output",
         "tensor bytes in a file (default 5GB)", Touches::output,
         value(&Options::max_shard_size, size_in)},
        {"no_fsync", 0, "", kWrite | kIobench, "Output", "do not wait until files are on disk",
         Touches::run, flag(&Options::sync, false)},
        {"direct_io", 0, "", kWrite, "Output",
         "write past the page cache (O_DIRECT); slower than the default on most file systems",
         Touches::run, flag(&Options::is_direct)},
        {"stripe", 0, "COUNT[,SIZE]", kWrite | kIobench, "Output",
         "Lustre: stripe new files over COUNT targets (or all) in stripes of SIZE; needs lfs",
         Touches::run, value(&Options::striping, striping_in)},
        {"output_format", 0, "NAME", kWrite, "Output", output_format, Touches::output,
         word(&Options::output_format, output_formats())},
        {"report", 0, "FILE", kModel | kVerify | kIobench, "Output",
         "write a report in JSON; verify: the report to check against", Touches::run,
         text(&Options::report), JobSteps::merge},
        {"sha256", 0, "", kWrite | kVerify, "Output",
         "put the sha256 of every file into the report; verify: compare with the report's",
         Touches::run, flag(&Options::sha256)},
        {"paranoid", 0, "", kWrite, "Output",
         "before publishing, read back from disk everything that was written (default: samples)",
         Touches::run, flag(&Options::paranoid)},
        {"roof", 0, "FILE", kWrite, "Output",
         "report of iobench; the merge then says what percentage of that speed it reached",
         Touches::run, text(&Options::roof)},

        {"tie_word_embedding", 0, "", kModel, "Model", "embedding and output head are one tensor",
         Touches::output, flag(&Options::tie_word_embedding)},
        {"is_value_model", 0, "", kModel, "Model", "a value model: the head is score.weight",
         Touches::output, flag(&Options::is_value_model)},
        {"vocab_size", 0, "N", kModel, "Model",
         "keep N rows of the vocabulary, whatever config.json and the checkpoint say",
         Touches::output, number(&Options::vocab_size, 1)},

        {"names", 0, "KIND", kModel, "Model",
         "hub (default: as save_pretrained writes them) or module (as the checkpoint has them)",
         Touches::output,
         word(&Options::names, {{"hub", TensorNames::hub}, {"module", TensorNames::module}})},
        {"include", 0, "REGEX", kWrite, "Model",
         "write only tensors in whose names REGEX matches; config and tokenizer stay as they are",
         Touches::output, value(&Options::selection, &Selection::include, expression_in)},
        {"exclude", 0, "REGEX", kWrite, "Model", "leave out tensors in whose names REGEX matches",
         Touches::output, value(&Options::selection, &Selection::exclude, expression_in)},
        {"lora", 0, "HOW", kModel, "Model",
         "adapter in the checkpoint: split (default: write it to lora_adapter/), fold (add it to "
         "the weights) or drop",
         Touches::output,
         word(&Options::lora,
              {{"split", Lora::split}, {"fold", Lora::fold}, {"drop", Lora::drop}})},
        {"lora_alpha", 0, "X", kModel, "Model", "LoRA's alpha, if the checkpoint does not state it",
         Touches::output, value(&Options::lora_alpha, lora_alpha_in)},
        {"base", 0, "DIR", kModel, "Model",
         "the model that was trained: the base of an adapter saved alone, otherwise compared with "
         "the result",
         Touches::output, text(&Options::base)},

        {"test_hf_dir", 0, "DIR", kTest, "Comparison", "the model to compare with", Touches::run,
         text(&Options::reference)},
        {"atol", 0, "X", kTest | kDiff, "Comparison", "absolute tolerance (default 1e-6)",
         Touches::run, value(&Options::atol, real_in)},
        {"rtol", 0, "X", kTest | kDiff, "Comparison", "relative tolerance (default 1e-6)",
         Touches::run, value(&Options::rtol, real_in)},
        {"strict_dtype", 0, "", kTest | kDiff, "Comparison",
         "count another dtype as a difference (default: compare in the narrower one)", Touches::run,
         flag(&Options::strict_dtype)},

        {"size", 0, "SIZE", kIobench, "Measuring", "bytes written by all ranks (default 4GB)",
         Touches::run, value(&Options::bench_size, size_in)},
        {"source", 0, "DIR", kIobench, "Measuring",
         "read and copy the files below DIR, not generated ones", Touches::run,
         text(&Options::bench_source)},
        {"extent", 0, "SIZE", kIobench, "Measuring", "size of each read and write (default 1MiB)",
         Touches::run, value(&Options::extent, extent_in)},
        {"repeats", 0, "N", kIobench, "Measuring", "runs of each kind (default 3)", Touches::run,
         number(&Options::n_repeats, 1)},
        {"cold", 0, "", kIobench, "Measuring", "first drop the source from the page cache",
         Touches::run, flag(&Options::is_cold)},
        {"copies_only", 0, "", kIobench, "Measuring",
         "measure only the copies, which give the roof", Touches::run, flag(&Options::copies_only)},
        {"keep", 0, "", kIobench, "Measuring", "keep the directory made in DIR", Touches::run,
         flag(&Options::is_kept)},

        {"hf_upload_path", 0, "ORG/NAME", kWrite | kUpload, "Upload",
         "upload the result to this repository of the Hub with the official client", Touches::run,
         text(&Options::upload_path)},
        {"private", 0, "", kWrite | kUpload, "Upload", "create a private repository", Touches::run,
         flag(&Options::is_private)},
        {"hf_cli", 0, "PATH", kWrite | kUpload, "Upload",
         "the client (default: hf on PATH, from pip install huggingface_hub)", Touches::run,
         text(&Options::hf_cli)},
        {"hf_upload", 0, "", kWrite, "", "accepted for compatibility with verl; has no effect",
         Touches::run, ignore_option},

        {"strategy", 0, "NAME", kModel, "Execution",
         "auto (default), direct (each rank reads what it writes) or collective (read each shard "
         "once and send)",
         Touches::run,
         word(&Options::strategy, {{"auto", plan::Strategy::automatic},
                                   {"collective", plan::Strategy::collective},
                                   {"direct", plan::Strategy::direct}})},
        {"replicas", 0, "HOW", kModel, "Execution",
         "copies of one tensor: auto (default), verify (compare all), trust (compare none)",
         Touches::run,
         word(&Options::replicas, {{"auto", plan::Replicas::automatic},
                                   {"verify", plan::Replicas::verify},
                                   {"trust", plan::Replicas::trust}})},
        {"memory_limit", 0, "SIZE", kModel, "Execution",
         "memory for a rank's buffers, at least 1MiB (default 256MiB, or less if the job has less)",
         Touches::run, value(&Options::memory_limit, memory_limit_in)},
        {"read_ahead", 0, "HOW", kModel, "Execution",
         "read the next round in a second thread: auto (default: if a rank has two cores), yes or "
         "no",
         Touches::run,
         word(&Options::read_ahead, {{"auto", std::nullopt}, {"yes", true}, {"no", false}})},
        {"bw_limit", 0, "SIZE", kModel | kDiff | kVerify, "Execution",
         "most bytes per second that all ranks together read and write (default: no limit)",
         Touches::run, value(&Options::bw_limit, size_in)},
        {"max_readers", 0, "N", kModel, "Execution",
         "let only N ranks read tensors and send them to the others (default: all read)",
         Touches::run, number(&Options::max_readers, 1)},
        {"message_limit", 0, "SIZE", kModel, "Execution",
         "expert: largest message between two ranks", Touches::run,
         value(&Options::message_limit, size_in)},
        {"resume", 0, "", kWrite, "Execution",
         "continue an earlier merge into this target, as every merge does, and say so if there is "
         "none",
         Touches::run, flag(&Options::resume), JobSteps::none},
        {"restart", 0, "", kWrite, "Execution",
         "start from the beginning, and remove what an earlier merge into this target left",
         Touches::run, flag(&Options::restart), JobSteps::none},
        {"stop_before", 0, "TIME", kWrite, "Execution",
         "stop this long before the job ends, ready to resume: 90s, 5m (default under Slurm: 60s)",
         Touches::run, value(&Options::stop_before, duration_in)},
        {"stall_timeout", 0, "TIME", kWrite, "Execution",
         "end the job if the ranks make no progress for this long (default 30m; 0: never)",
         Touches::run, value(&Options::stall_timeout, duration_in)},
        {"strict", 0, "", kModel, "Execution", "warnings end the run with exit code 14",
         Touches::run, flag(&Options::strict)},
        {"ranks", 0, "N", kPlan, "Execution",
         "plan for N ranks (default 1; with --sbatch four per node)", Touches::run,
         value(&Options::n_ranks, n_ranks_in)},
        {"sbatch", 0, "", kPlan, "Execution",
         "print a job script for Slurm that merges with these options and resumes at the time "
         "limit",
         Touches::run, set_sbatch},
        {"nodes", 0, "N", kPlan, "Execution", "with --sbatch: nodes of the job (default 1)",
         Touches::run, set_nodes},
        {"rate", 0, "SIZE", kPlan, "Execution",
         "with --sbatch: bytes per second that the job reads and writes, to set its time limit "
         "(default 200MB)",
         Touches::run, set_rate},

        {"json", 0, "", kPlan | kInspect | kTest | kDiff | kVerify | kIobench, "Messages",
         "print JSON", Touches::run, flag(&Options::json)},
        {"html", 0, "FILE", kReport, "Output", "write one page of HTML instead of text",
         Touches::run, text(&Options::html)},
        {"all", 0, "", kInspect, "Messages",
         "every tensor on a line of its own, with exact bytes and the ranks that hold it",
         Touches::run, flag(&Options::is_whole)},
        {"trace", 0, "NAME", kModel, "Messages",
         "follow one tensor: pieces, placements, layout, target", Touches::run,
         text(&Options::trace), JobSteps::merge},
        {"verbose", 'v', "", kEvery, "Messages", "same as --log_level debug", Touches::loudness,
         set_verbose},
        {"quiet", 'q', "", kEvery, "Messages", "errors only, no progress", Touches::loudness,
         set_quiet},
        {"log_level", 0, "LEVEL", kEvery, "Messages", "error, warning, info (default) or debug",
         Touches::loudness,
         word(&Options::log_level, {{"error", LogLevel::error},
                                    {"warning", LogLevel::warning},
                                    {"info", LogLevel::info},
                                    {"debug", LogLevel::debug}})},
        {"progress", 0, "STYLE", kEvery & ~kRecipes, "Messages",
         "auto (default: a bar on a terminal, else lines), bar, lines, json or none",
         Touches::loudness,
         word(&Options::progress, {{"auto", ProgressStyle::automatic},
                                   {"bar", ProgressStyle::bar},
                                   {"lines", ProgressStyle::lines},
                                   {"json", ProgressStyle::json},
                                   {"none", ProgressStyle::none}})},
        {"log_dir", 0, "DIR", kEvery & ~kRecipes, "Messages",
         "keep a log per rank in DIR: messages, phases and files with their times", Touches::run,
         text(&Options::log_dir)},
        {"help", 'h', "", kEvery, "Messages", "all options; -h lists the usual ones", Touches::run,
         ignore_option},

        {"use_cpu_initialization", 0, "", kInput, "",
         "accepted for compatibility with verl; has no effect", Touches::run, note_ignored},
        {"trust_remote_code", 0, "", kInput, "",
         "accepted for compatibility with verl; has no effect", Touches::run, note_ignored},
    };
    return rows;
}

const OptionRow* find_option(std::string_view name) {
    const auto& rows = option_rows();
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const OptionRow& row) { return row.name == name; });
    return found == rows.end() ? nullptr : &*found;
}

std::vector<const OptionRow*> listed_options(const CommandRow& command) {
    std::vector<const OptionRow*> listed;
    for (const OptionRow& row : option_rows()) {
        if (row.is_taken_by(command.command) && !row.group.empty()) {
            listed.push_back(&row);
        }
    }
    return listed;
}

std::vector<const OptionRow*> usual_options(const CommandRow& command) {
    if (command.usual.empty()) {
        return listed_options(command);
    }
    std::vector<const OptionRow*> usual;
    for (const std::string_view name : command.usual) {
        usual.push_back(find_option(name));
    }
    return usual;
}

bool is_later_option(std::string_view name) {
    constexpr std::array<std::string_view, 4> kLater = {"map", "quantize", "ref_model_path",
                                                        "tokenizer"};
    return std::find(kLater.begin(), kLater.end(), name) != kLater.end();
}

}  // namespace shardweld::app
