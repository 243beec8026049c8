#include "option_table.hpp"

#include <algorithm>
#include <array>

namespace shardweld::app {

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<OptionRow>& option_rows() {
    constexpr unsigned kWrite = kMerge | kPlan;  // a merge, whose target is given
    constexpr unsigned kMove = kWrite | kTest;   // whose ranks move all tensors
    constexpr unsigned kMade = kWrite | kMount;  // of which all files are made
    constexpr unsigned kModel = kMove | kMount;
    constexpr unsigned kInput = kModel | kInspect;
    using formats::JobInput;
    using plan::JobPlan;
    using enum Touches;
    static const std::string backend = "format of the checkpoint: " + choice_help(backends());
    static const std::string output_format =
        "format of the weight files: " + choice_help(output_formats());
    static const std::string quantise = "quantise the weights of linear layers, as " +
                                        joined(encoding_names(), ", ") + " (gguf: for llama.cpp)";
    static const std::vector<OptionRow> rows = {
        {"local_dir", "DIR", kInput | kVerify | kClean | kUnmount, "Input",
         "checkpoint: a step, iteration or shard directory; verify: the model that was written; "
         "clean: the directory to look below; unmount: the directory that a model is mounted at",
         text<&JobInput::directory>(), input},
        {"backend", "NAME", kInput, "Input", backend, word<&JobInput::backend>(backends()), output},
        {"hf_config", "DIR", kInput, "Input",
         "directory with config.json and the tokenizer; needed if the checkpoint has none",
         text<&JobModel::hf_config>(), input},
        {"hf_model_path", "DIR", kInput, "", "older name of --hf_config", Setter{set_older_config},
         input},
        {"iteration", "N", kInput, "Input", "iteration to merge, if there are several",
         number<&JobInput::iteration>(0), output},
        {"steps", "", kInspect, "Input",
         "list the saves in DIR, the directory of a training run or one above it, and what "
         "trackers say of the last one",
         flag<&JobRun::shows_steps>()},
        {"role", "NAME", kInput, "Input", "actor or critic, if there are both",
         word<&JobInput::role>({{"actor", "actor"}, {"critic", "critic"}}), output},
        {"topic", "NAME", kRecipes, "", "the family to print", text<&Job::topic>()},
        {"config", "DIR", kRecipes, "Input",
         "print, as JSON, which tensors the family has with the values of DIR/config.json",
         text<&JobModel::config>()},
        {"recipe", "FILE", kModel | kRecipes, "Input",
         "file with the tensor names of a model family (recipe) or framework (dialect), beside the "
         "built-in ones",
         text<&JobModel::recipe>(), output},
        {"mesh_dim_names", "LIST", kInput, "Input",
         "FSDP: names of the device mesh's dimensions, e.g. ddp,fsdp, if the files have them wrong",
         value<&formats::Mesh::names>(names_in), output},
        {"mesh_shape", "LIST", kInput, "Input", "FSDP: sizes of these dimensions, e.g. 2,4",
         value<&formats::Mesh::shape>(extents_in), output},
        {"prefix", "TEXT", kInput, "Input",
         "merge only the tensors whose names begin with TEXT and a dot, and strip both",
         text<&JobInput::prefix>(), output},
        {"weights", "KIND", kInput, "Input",
         "DeepSpeed: master (the optimizer's fp32 weights; default if there are any) or model (the "
         "module's weights)",
         word<&JobInput::weights>(
             {{"master", formats::WeightsFrom::master}, {"model", formats::WeightsFrom::model}}),
         output},
        {"state", "KIND", kMade, "Input",
         "take weights alone (default), also the optimizer's fp32 master weights (master), or also "
         "its moments (all), and write them beside the weights",
         word<&JobInput::state>({{"weights", formats::TakenState::weights},
                                 {"master", formats::TakenState::master},
                                 {"all", formats::TakenState::all}}),
         output},
        {"check_crc", "[before|during|off]", kInput | kDiff, "Input",
         "check the CRC-32 in torch files: during (default: as they are read), before (in an extra "
         "pass before anything is written; also if no value is given) or off",
         word<&JobRun::check_crc>(
             {{"before", CheckCrc::before}, {"during", CheckCrc::during}, {"off", CheckCrc::off}}),
         run, JobSteps::merge},

        {"average", "", kModel, "Several checkpoints",
         "average several checkpoints, of any formats and parallel sizes: merge --average A B OUT",
         flag<&Averaging::is_average>(), output},
        {"average_weights", "LIST", kModel, "Several checkpoints",
         "their weights, e.g. 1,3: each is divided by the sum of all (default: all the same)",
         value<&Averaging::weights>(reals_in), output},
        {"average_decay", "X", kModel, "Several checkpoints",
         "exponential average: each checkpoint counts X times as much as the next; normalised",
         value<&Averaging::decay>(decay_in), output},
        {"task_arithmetic", "DIR", kModel, "Several checkpoints",
         "task arithmetic: BASE + scale * (DIR - BASE), summed over the DIRs; this is BASE",
         text<&Averaging::base>(), input},
        {"scale", "LIST", kModel, "Several checkpoints",
         "with --task_arithmetic: a number for all DIRs, or one for each",
         value<&Averaging::scales>(reals_in), output},

        {"target_dir", "DIR", kMade, "Output",
         "directory to write; OUT.gguf writes a GGUF file into the directory OUT (with --verl the "
         "default is tmp); mount: the empty directory at which the model is seen",
         text<&JobOutput::directory>()},
        {"to", "FORM", kMade, "Output",
         "write a training checkpoint: torch_dist, legacy:tp=N,pp=N,vpp=N,ep=N,etp=N,.., "
         "fsdp:world=N,ddp=N,device=cpu, dcp:world=N, universal; same, the checkpoint's own form; "
         "or hf, a HuggingFace model (merge's default)",
         value<&JobOutput::form>(form_in, {}, [](auto& output) { return output.form; }), form},
        {"like", "DIR", kMade, "Output",
         "write a training checkpoint like that in DIR: its names, types, files and places, and "
         "everything else in them; only weights are the model's",
         value<&JobOutput::form>([](const Given& given) { return "like:" + given.text; }), output},
        {"like_only_weights", "HOW", kMade, "Output",
         "with --like: weights that only DIR has are copied and listed (yes, default) or refused "
         "(no)",
         word<&JobRun::copies_template>({{"yes", true}, {"no", false}}), output},
        {"overwrite", "", kWrite, "Output", "replace the model that is in the target already",
         flag<&JobRun::overwrite>()},
        {"if_complete", "HOW", kWrite, "Output",
         "if the target holds this merge's output already, as its report says: error (default), "
         "verify (re-read it, succeed) or skip (compare sizes, succeed)",
         word<&JobRun::if_complete>({{"error", IfComplete::error},
                                     {"verify", IfComplete::verify},
                                     {"skip", IfComplete::skip}}),
         run, JobSteps::merge},
        {"dtype", "TYPE", kModel, "Output",
         "write floats as bf16, fp16 or fp32 (default: as stored); torch's names are fine too",
         value<&JobOutput::dtype>(dtype_in, {"bf16", "fp16", "fp32"},
                                  [](auto& output) {
                                      return std::string(output.dtype ? dtype_word(*output.dtype)
                                                                      : "");
                                  }),
         form},
        {"quantize", "ENCODING", kModel | kFinished, "Output", quantise,
         value<&JobOutput::quantise>(
             encoding_in, encoding_names(),
             [](auto& output) {
                 return std::string(output.quantise ? facts_of(*output.quantise).name : "");
             }),
         form},
        {"quantize_ignore", "REGEX", kModel | kFinished, "Output",
         "do not quantise weights whose name matches REGEX (nor weights fused with them: q/k/v, "
         "gate/up)",
         value<&JobModel::quantise_ignore>(expression_in), output},
        {"also", "DIR[:FORM]", kWrite, "Output",
         "write another output of the same checkpoint to DIR, as FORM: an encoding of --quantize, "
         "a type of --dtype or a form of --to; may be given several times",
         Setter{set_also}, run, JobSteps::merge, 0, true},
        {"verl", "", kModel | kFinished, "Output",
         "write what verl 0.9.1's merger writes: bf16 unless --dtype says otherwise, and a "
         "generation_config.json where there is none",
         Setter{set_verl}, output},
        {"max_shard_size", "SIZE", kMade | kFinished, "Output",
         "maximum size of a weight file (default 5GB)", value<&JobPlan::max_shard_size>(size_in),
         output},
        {"no_card", "", kMade, "Output",
         "do not write a model card (README.md), which tells what the model was made of and how",
         flag<&JobRun::has_card>(false), output},
        {"output_format", "NAME", kMade | kFinished, "Output", output_format,
         word<&JobPlan::output_format>(output_formats()), output},
        {"report", "FILE|none", kMove | kVerify, "Output",
         "write a report in JSON to FILE; merge: write the report of the run to FILE, not into the "
         "output's directory (shardweld_report.json), or none; verify: the report to compare with, "
         "not the one in DIR, or none",
         value<&JobOutput::report>(report_in), run, JobSteps::merge},
        {"sha256", "", kWrite | kVerify, "Output",
         "put the sha256 of every file into the report; verify: compare with the report's",
         flag<&JobRun::sha256>()},
        {"paranoid", "", kWrite, "Output",
         "before publishing, read back from disk everything that was written (default: samples)",
         flag<&JobRun::paranoid>()},

        {"tie_word_embedding", "", kModel, "Model",
         "the output head is the embedding, whatever config.json says", flag<&JobModel::is_tied>(),
         output},
        {"is_value_model", "", kModel, "Model",
         "the checkpoint is a value or reward model: its head is score.weight",
         flag<&JobModel::is_value>(), output},
        {"vocab_size", "N", kModel, "Model",
         "keep N rows of the vocabulary, whatever config.json and the checkpoint say",
         number<&JobModel::vocab_size>(1), output},

        {"names", "KIND", kModel | kFinished, "Model",
         "tensor names: hub (default: as save_pretrained writes them) or module (as the checkpoint "
         "has them, without the prefixes of training frameworks)",
         word<&JobModel::has_module_names>({{"hub", false}, {"module", true}}), output},
        {"include", "REGEX", kModel | kFinished, "Model",
         "write only tensors whose names match REGEX; config and tokenizer stay as they are",
         value<&Selection::include>(expression_in), output},
        {"exclude", "REGEX", kModel | kFinished, "Model",
         "leave out tensors whose names match REGEX", value<&Selection::exclude>(expression_in),
         output},
        {"lora", "HOW", kModel, "Model",
         "a LoRA adapter in the checkpoint: split (default: write it to lora_adapter/, beside the "
         "untrained base), fold (add it to the weights) or drop",
         word<&JobModel::lora>(
             {{"split", Lora::split}, {"fold", Lora::fold}, {"drop", Lora::drop}}),
         output},
        {"lora_alpha", "X", kModel, "Model", "LoRA's alpha, if the checkpoint does not state it",
         value<&JobModel::lora_alpha>(lora_alpha_in), output},
        {"base", "DIR", kModel | kDiff, "Model",
         "the model before training: the base of an adapter saved alone, otherwise compared with "
         "the result; diff: the model that was quantised",
         text<&JobModel::base>(), output},

        {"supplement", "DIR", kModel, "Model",
         "take what the model has and the checkpoint does not, such as MTP layers, towers and "
         "heads, from the model in DIR; never a part of a module that was trained",
         text<&JobModel::supplement>(), output},

        {"test_hf_dir", "DIR", kTest, "Comparison", "the model to compare with",
         text<&JobRun::reference>()},
        {"of_merge", "", kTest, "Comparison",
         "take the options of a merge as they are, and ignore those that test does not have",
         Setter{ignored}},
        {"atol", "X", kTest | kDiff, "Comparison", "absolute tolerance (default 1e-6)",
         value<&JobRun::atol>(real_in)},
        {"rtol", "X", kTest | kDiff, "Comparison", "relative tolerance (default 1e-6)",
         value<&JobRun::rtol>(real_in)},
        {"strict_dtype", "", kTest | kDiff, "Comparison",
         "count another dtype as a difference (default: compare in the narrower one)",
         flag<&JobRun::strict_dtype>()},

        {"daemon", "", kMount, "Mount", "go on in the background, once the model can be read",
         flag<&JobRun::is_daemon>()},
        {"ready", "FILE", kMount, "Mount",
         "write FILE, with the number of the process, once the model can be read",
         text<&JobRun::ready>()},
        {"allow_other", "", kMount, "Mount",
         "let other users read it, too (as user_allow_other in /etc/fuse.conf permits)",
         flag<&JobRun::is_for_all>()},
        {"cache_limit", "SIZE", kMount, "Mount",
         "memory for what was made and may be read again (default 48MiB, at least 16MiB)",
         value<&JobRun::cache_limit>(size_in)},

        {"older_than", "TIME", kClean, "Cleaning",
         "remove only what nobody has written to for this long: 12h, 7d (default: all but running "
         "merges)",
         value<&JobRun::older_than>(duration_in)},
        {"dry_run", "", kClean, "Cleaning", "list what would be removed, and remove nothing",
         flag<&JobRun::is_dry_run>()},

        {"hf_upload_path", "ORG/NAME", kWrite | kFinished, "Upload",
         "upload the result to this repository of the Hub with the official client",
         text<&JobRun::upload_path>()},
        {"private", "", kWrite | kFinished, "Upload", "make the repository private if it is new",
         flag<&JobRun::is_private>()},
        {"revision", "BRANCH", kWrite | kFinished, "Upload",
         "upload to a branch, which the client makes if it is new (default: main)",
         value<&JobRun::revision>(branch_in)},
        {"hf_cli", "PATH", kWrite | kFinished, "Upload",
         "the client (default: hf on PATH, from pip install huggingface_hub)",
         text<&JobRun::hf_cli>()},
        {"hf_upload", "", kWrite, "", "accepted for compatibility with verl; has no effect",
         Setter{ignored}},

        {"resume", "", kWrite, "Execution",
         "merges always resume; with this flag a note says if there was nothing to resume",
         flag<&JobRun::resume>(), run, JobSteps::none},
        {"restart", "", kWrite, "Execution",
         "start over, and remove what an earlier merge into this target left",
         flag<&JobRun::restart>(), run, JobSteps::none},
        {"stop_before", "TIME", kWrite, "Execution",
         "stop this long before the job ends, ready to resume: 90s, 5m (default under Slurm: 60s)",
         value<&JobRun::stop_before>(duration_in)},
        {"stop_at", "TIME", kWrite, "Execution",
         "stop at this time, ready to resume: +50m from now, 2026-11-22T03:10 or seconds since "
         "1970",
         value<&JobRun::stop_at>(moment_in)},
        {"stall_timeout", "TIME", kMade, "Execution",
         "end the job if the ranks make no progress for this long (default 30m; 0: never); mount: "
         "fail a read whose source has not answered for this long",
         value<&JobRun::stall_timeout>(duration_in)},
        {"strict", "", kModel, "Execution", "end with exit code 14 if there is a warning",
         flag<&JobRun::strict>()},
        {"ranks", "N", kPlan, "Execution", "plan for N ranks (default 1)",
         number<&JobRun::n_ranks>(1)},
        {"rate", "SIZE", kPlan, "Execution",
         "bytes per second that the job can read and write; default: a range from 200MB to what an "
         "ordinary cluster has",
         value<&JobRun::rate>(size_in)},
        {"inputs", "", kPlan, "Messages",
         "print only the files that a merge would read tensors from, with their sizes in bytes",
         flag<&JobRun::lists_inputs>()},
        {"json", "", kEvery & ~(kMount | kUnmount), "Messages",
         "print JSON, also of what went wrong", flag<&JobRun::json>()},
        {"all", "", kInspect, "Messages",
         "show each tensor on a line of its own, with exact bytes and the ranks that hold it",
         flag<&JobRun::is_whole>()},
        {"trace", "NAME", kMove, "Messages",
         "tell where one tensor is stored, how it is cut, and where it goes",
         text<&JobRun::trace>(), run, JobSteps::merge},
        {"verbose", "", kEvery, "Messages", "say more; diff, test: the same, and show every row",
         flag<&JobRun::log_level>(LogLevel::debug), loudness, JobSteps::all, 'v'},
        {"quiet", "", kEvery, "Messages", "errors only, no progress",
         flag<&JobRun::log_level>(LogLevel::error), loudness, JobSteps::all, 'q'},
        {"color", "WHEN", kEvery, "Messages",
         "colours: auto (default: on a terminal, unless NO_COLOR is set; with FORCE_COLOR "
         "everywhere), always or never",
         word<&JobRun::has_colours>({{"auto", std::nullopt}, {"always", true}, {"never", false}}),
         loudness},
        {"progress", "STYLE", kEvery & ~(kRecipes | kUnmount), "Messages",
         "how progress is shown: auto (default: a bar on a terminal, else lines), bar, lines, json "
         "or none",
         word<&JobRun::progress>({{"auto", ProgressStyle::automatic},
                                  {"bar", ProgressStyle::bar},
                                  {"lines", ProgressStyle::lines},
                                  {"json", ProgressStyle::json},
                                  {"none", ProgressStyle::none}}),
         loudness},
        {"log_dir", "DIR", kEvery & ~(kRecipes | kUnmount), "Messages",
         "keep a log of each rank in DIR: messages, phases and files with their times",
         text<&JobRun::log_dir>()},
        {"done", "FILE", kMove | kDiff | kVerify, "Messages",
         "write FILE at the end of the run, however it ends: the code, the job and a line of "
         "figures; proof for scripts that the program ran",
         text<&JobRun::done>()},
        {"help", "", kEvery, "Messages", "all options; -h lists the usual ones", Setter{ignored},
         run, JobSteps::all, 'h'},

        {"max_open", "N", kModel, "Tuning", "input files that a rank keeps open (default 64)",
         number<&JobRun::max_open>(1)},
        {"no_fsync", "", kWrite, "Tuning", "do not wait until the files are safely on disk",
         flag<&JobRun::sync>(false)},
        {"direct_io", "", kWrite, "Tuning",
         "write past the page cache (O_DIRECT); slower than the default on most file systems",
         flag<&JobRun::is_direct>()},
        {"stripe", "COUNT[,SIZE]", kWrite, "Tuning",
         "Lustre: stripe new files over COUNT targets (or all) in stripes of SIZE; needs lfs",
         value<&JobRun::striping>(striping_in)},
        {"strategy", "NAME", kMove, "Tuning",
         "how data gets to the ranks that write it: auto (default), direct (each rank reads what "
         "it writes) or collective (each shard is read once, and sent)",
         word<&JobPlan::strategy>({{"auto", plan::Strategy::automatic},
                                   {"collective", plan::Strategy::collective},
                                   {"direct", plan::Strategy::direct}})},
        {"replicas", "HOW", kMove, "Tuning",
         "tensors that are stored several times: auto (default: compare what costs little), verify "
         "(compare all copies) or trust (compare none)",
         word<&JobPlan::replicas>({{"auto", plan::Replicas::automatic},
                                   {"verify", plan::Replicas::verify},
                                   {"trust", plan::Replicas::trust}})},
        {"memory_limit", "SIZE", kModel, "Tuning",
         "memory for a rank's buffers, at least 1MiB (default 256MiB, or less if the job has less)",
         value<&JobRun::memory_limit>(memory_limit_in)},
        {"read_ahead", "HOW", kMove, "Tuning",
         "read the next round in a second thread: auto (default: if a rank has two cores), yes or "
         "no",
         word<&JobRun::read_ahead>({{"auto", std::nullopt}, {"yes", true}, {"no", false}})},
        {"bw_limit", "SIZE", kModel | kDiff | kVerify, "Tuning",
         "most bytes per second that all ranks together read and write (default: no limit)",
         value<&JobRun::bw_limit>(size_in)},
        {"max_readers", "N", kMove, "Tuning",
         "let only N ranks read tensors and send them to the others (default: all read)",
         number<&JobPlan::max_readers>(1)},
        {"message_limit", "SIZE", kMove, "Tuning", "for experts: largest message between two ranks",
         value<&JobPlan::message_limit>(size_in)},

        {"use_cpu_initialization", "", kInput, "",
         "accepted for compatibility with verl; has no effect", Setter{ignored_with_note}},
        {"trust_remote_code", "", kInput, "", "accepted for compatibility with verl; has no effect",
         Setter{ignored_with_note}},
    };
    return rows;
}

const std::vector<OptionRow>& rows_for(const CommandRow& command) {
    return command.options_told ? *command.options_told : option_rows();
}

const OptionRow* find_option(std::string_view name) {
    return find_item(option_rows(), name, &OptionRow::name);
}

const OptionRow* find_option(std::string_view name, const CommandRow& command) {
    return find_item(rows_for(command), name, &OptionRow::name);
}

std::vector<const OptionRow*> listed_options(const CommandRow& command) {
    return collect_list(
        rows_for(command), [](const OptionRow& row) { return &row; },
        [&](const OptionRow& row) { return row.is_in_help_of(command) && !row.group.empty(); });
}

std::string_view help_for(const OptionRow& row, const CommandRow& command) {
    const auto begins_with_command = [](std::string_view text) {
        return std::ranges::any_of(command_rows(), [&](const CommandRow& one) {
            return text.starts_with(std::string(one.name) + ":") ||
                   text.starts_with(std::string(one.name) + ", ");
        });
    };
    // "A; verify, check: B; clean: C".
    std::vector<std::string_view> parts{row.help};
    for (std::size_t at = row.help.find("; "); at != std::string_view::npos;
         at = row.help.find("; ", at + 1)) {
        if (begins_with_command(row.help.substr(at + 2))) {
            const std::string_view behind = row.help.substr(at + 2);
            parts.back() = parts.back().substr(0, parts.back().size() - behind.size() - 2);
            parts.push_back(behind);
        }
    }
    const auto is_this = [&](std::string_view name) {
        return trim(name) == command.name || (command.needs_form && trim(name) == "merge");
    };
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const std::size_t colon = parts[i].find(": ");
        const auto names = split(parts[i].substr(0, colon), ',');
        if (std::ranges::any_of(names, is_this)) {
            return parts[i].substr(colon + 2);
        }
    }
    return parts.front();
}

std::vector<const OptionRow*> usual_options(const CommandRow& command) {
    if (command.usual.empty()) {
        return listed_options(command);
    }
    return collect_list(command.usual,
                        [&](const std::string_view name) { return find_option(name, command); });
}

bool is_later_option(std::string_view name) {
    constexpr std::array<std::string_view, 3> kLater = {"map", "ref_model_path", "tokenizer"};
    return contains(kLater, name);
}

}  // namespace shardweld::app
