// Sources: the command lines of verl 0.9 (model_merger), Megatron-LM (tools/checkpoint/convert.py),
// Megatron-Bridge, DeepSpeed (zero_to_fp32.py), mergekit, llama.cpp (convert_hf_to_gguf.py,
// llama-quantize), transformers and PEFT, vLLM, SGLang and TGI.
#include "typed_words.hpp"

#include <algorithm>

#include "core/text.hpp"

#include "nearest.hpp"

namespace shardweld::app {

namespace {

constexpr unsigned kWriting = kMerge | kPlan;
constexpr unsigned kOfModel = kWriting | kTest;
constexpr unsigned kReading = kOfModel | kInspect;
constexpr unsigned kServing = kCheck;

constexpr std::string_view kRanks =
    "the launcher starts ranks: mpirun -n 8 shardweld merge ..., or srun";
constexpr std::string_view kNoDevice = "it is not needed: a merge uses no GPU and little memory";
constexpr std::string_view kKnowsLayout =
    "it is not needed: the checkpoint's files say how it is divided";
constexpr std::string_view kWholeFile =
    "it is not needed: files appear under their names when they are whole";
constexpr std::string_view kToken = "log in with hf auth login, or set HF_TOKEN";
constexpr std::string_view kAdapter =
    "an adapter's directory is a checkpoint: shardweld merge ADAPTER OUT --base MODEL --lora fold";

struct TypedCommand {
    std::string_view typed;
    std::string_view means;
    std::string_view text = {};
};

constexpr TypedCommand kTypedCommands[] = {
    {"convert export weld consolidate combine join gather unshard save", "merge"},
    {"reshard", "merge IN OUT --max_shard_size SIZE"},
    {"quantize quantise", "merge IN OUT --quantize ENCODING"},
    {"gguf", "merge IN OUT --quantize gguf:q8_0"},
    {"average avg", "merge --average A B OUT"},
    {"fold", "merge IN OUT --lora fold"},
    {"dry_run dryrun estimate", "plan"},
    {"info show ls list view print describe stat", "inspect"},
    {"compare cmp", "diff"},
    {"validate", "verify"},
    {"serve", "check DIR --target vllm"},
    {"lint", "check"},
    {"push", "upload"},
    {"iobench bench benchmark", "", "it is gone: IOR and fio measure a file system"},
    {"cleanup rm", "clean"},
    {"models families", "recipes"},
    {"follow monitor daemon", "watch RUN OUT"},
    {"html", "report FILE --html OUT"},
};

/// Small letters, '-' for '_'.
std::string plain(std::string_view typed) {
    return replaced(in_small_letters(typed), "_", "-");
}

/// `words` stand with blanks between them.
bool is_among(std::string_view word, std::string_view words) {
    return std::ranges::count(split(words, ' '), word) > 0;
}

std::string guess_text(std::string_view means, std::string_view text) {
    const std::string question = means.empty() ? "" : "did you mean " + std::string(means) + "?";
    return question + (question.empty() || text.empty() ? "" : " ") + std::string(text);
}

}  // namespace

std::string in_small_letters(std::string_view text) {
    std::string small(text);
    for (char& letter : small) {
        letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
    return small;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<TypedOption>& typed_options() {
    static const std::vector<TypedOption> rows = {
        // Where the checkpoint is.
        {"load load_dir load_path i in input_dir input_path src source ckpt ckpt_dir "
         "ckpt_path checkpoint checkpoint_dir checkpoint_path megatron_path fsdp_dir",
         kReading, "--local_dir DIR", ""},
        {"input", kReading & ~kPlan, "--local_dir DIR", ""},
        {"path dir", kReading | kVerify | kCheck | kClean, "--local_dir DIR", ""},
        {"model m model_path model_dir", kReading, "--local_dir DIR",
         "--local_dir is the checkpoint, --hf_config the directory with config.json"},
        {"model m model_path model_dir", kVerify | kCheck, "--local_dir DIR", ""},
        {"step steps ckpt_step load_step global_step iter", kReading, "--iteration N", ""},
        {"tag t", kReading, "--iteration N",
         "or give the tag's own directory as the checkpoint: DIR/global_step100"},
        {"hf_path hf_dir hf_model hf_checkpoint config config_path", kReading, "--hf_config DIR",
         ""},
        {"hf_model_name model_name model_name_or_path", kReading, "--hf_config DIR",
         "it is a directory, not a name on the Hub"},
        {"tokenizer_path tokenizer_dir tokenizer_model tokenizer_source", kReading,
         "--hf_config DIR", "the tokenizer that lies beside config.json is copied"},
        {"copy_tokenizer", kReading, "",
         "it is not needed: the tokenizer that lies beside config.json is copied"},
        {"format input_format ckpt_format dist_ckpt_format checkpoint_type framework loader",
         kReading, "--backend NAME", "a checkpoint's format is recognised without it"},
        {"saver", kWriting, "", "it is not needed: HuggingFace safetensors are written"},
        {"arch model_type architecture family", kReading, "",
         "it is not needed: config.json names the family"},
        {"model_size", kReading, "", "it is not needed: config.json has the sizes"},
        {"tp pp ep tensor_model_parallel_size pipeline_model_parallel_size "
         "expert_model_parallel_size target_tensor_parallel_size target_pipeline_parallel_size "
         "world_size",
         kReading, "", kKnowsLayout},
        {"critic is_critic", kReading, "--role critic", ""},
        {"actor", kReading, "--role actor", ""},

        // Where the model goes.
        {"o out output output_dir output_path out_dir out_path output_file save save_dir save_path "
         "save_hf_path target target_path dst dest destination export_dir",
         kWriting, "--target_dir DIR", ""},
        {"outfile", kWriting, "--target_dir DIR", "or name the target OUT.gguf"},
        {"f force replace clobber exist_ok overwrite_output_dir", kWriting, "--overwrite", ""},
        {"y yes", kWriting, "--overwrite", "nothing is asked while a merge runs"},
        {"roof", kEvery, "",
         "it is gone: IOR and fio measure a file system, and a report has the times of a merge"},
        {"put", kEvery, "",
         "it is gone: run a client when the model is there (watch: --then), as rclone copy OUT "
         "remote:bucket/model; --hf_upload_path uploads to the Hub"},
        {"stream", kEvery, "", "it is gone: --hf_upload_path uploads the model when it is there"},
        {"delta_dir delta_against", kEvery, "",
         "it is gone: shardweld delta PREV OUT DIR behind the merge writes what changed, and watch "
         "--delta_dir for each step"},
        {"layout_like", kEvery, "",
         "it is gone: --max_shard_size sets the size of files, and the Hub's client sends equal "
         "parts of files once"},
        {"drop_consumed", kEvery, "",
         "no version removes a checkpoint any more: make room first, or write to another file "
         "system, and remove it when the output is verified"},
        {"skip_existing", kWriting, "--if_complete skip", ""},
        {"n", kMerge, "", kRanks},
        {"dry_run dryrun", kMerge, "", "shardweld plan takes the same options and writes nothing"},
        {"dry_run", kPlan, "", "plan writes nothing in any case: leave it out"},

        // What is written.
        {"bf16 bfloat16", kOfModel, "--dtype bf16", ""},
        {"fp16 float16 half", kOfModel, "--dtype fp16", ""},
        {"fp32 float32", kOfModel, "--dtype fp32", ""},
        {"torch_dtype params_dtype out_dtype data_type precision", kOfModel, "--dtype TYPE", ""},
        {"outtype", kOfModel, "--quantize gguf:q8_0", "or gguf:bf16, gguf:f16 and others"},
        {"gguf", kOfModel, "--quantize gguf:q8_0", "or name the target OUT.gguf"},
        {"q8_0", kOfModel, "--quantize gguf:q8_0", ""},
        {"quant quantise quantization quantisation quant_type encoding q", kOfModel,
         "--quantize ENCODING", ""},
        {"fp8", kOfModel, "--quantize fp8-block", ""},
        {"int8 load_in_8bit", kOfModel, "--quantize w8a16", ""},
        {"int4 load_in_4bit", kOfModel, "--quantize w4a16", ""},
        {"ignore", kOfModel, "--quantize_ignore REGEX", ""},
        {"shard_size max_file_size split_max_size out_shard_size", kWriting,
         "--max_shard_size SIZE", ""},
        {"safetensors safe_serialization use_safetensors save_safetensors", kWriting, "",
         "it is not needed: safetensors are written"},
        {"hdf5", kWriting, "--output_format hdf5", ""},
        {"output_type", kWriting, "--output_format NAME", ""},

        // The model.
        {"fold fold_lora merge_lora merge_adapter merge_and_unload", kOfModel, "--lora fold", ""},
        {"no_lora", kOfModel, "--lora drop", ""},
        {"adapter adapter_dir adapter_path adapter_name_or_path lora_dir lora_path lora_model "
         "peft_model",
         kOfModel, "", kAdapter},
        {"base_model", kOfModel | kDiff, "--base DIR", ""},
        {"base_model_name_or_path", kOfModel | kDiff, "--base DIR",
         "it is a directory, not a name on the Hub"},
        {"alpha", kOfModel, "--lora_alpha X", ""},
        {"tie tied tie_embeddings tie_word_embeddings", kOfModel, "--tie_word_embedding", ""},
        {"value_model reward_model", kOfModel, "--is_value_model", ""},
        {"true_vocab_size padded_vocab_size make_vocab_size_divisible_by", kOfModel,
         "--vocab_size N", ""},
        {"exclude_frozen_parameters", kOfModel, "--exclude REGEX",
         "frozen parameters are written as all others"},
        {"avg mean soup", kOfModel, "--average", ""},
        {"merge_method", kOfModel, "--average", "or --delta BASE --scale X for task arithmetic"},
        {"ema", kOfModel, "--average --average_decay X", ""},
        {"task_arithmetic", kOfModel, "--delta BASE --scale X", ""},

        // How it runs.
        {"j", kOfModel | kPlan, "", kRanks},
        {"np jobs ranks threads num_threads workers max_workers num_workers num_proc nprocs "
         "nproc_per_node num_processes",
         kMerge | kTest, "", kRanks},
        {"n np nprocs threads num_workers nproc_per_node", kPlan, "--ranks N", ""},
        {"slurm", kPlan, "--sbatch", ""},
        {"slurm sbatch", kMerge, "", "shardweld plan DIR OUT --sbatch prints a job script"},
        {"cpu gpu cuda device device_map low_cpu_mem_usage low_cpu_memory lazy lazy_unpickle "
         "lazy_mode no_lazy",
         kReading, "", kNoDevice},
        {"use_temp_file", kReading, "", kWholeFile},
        {"max_memory memory", kOfModel, "--memory_limit SIZE", ""},
        {"continue", kWriting, "--resume", "a merge goes on where an earlier one stopped"},
        {"verify", kMerge, "--paranoid", "or shardweld verify OUT once it is written"},
        {"check", kMerge, "", "shardweld check OUT tells whether it will load"},
        {"test", kMerge, "", "shardweld test DIR MODEL compares instead of merging"},
        {"json", kMerge, "--report FILE", "or --progress json for messages in JSON"},
        {"debug", kEvery, "--verbose", ""},
        {"log_level", kEvery, "", "it is gone: -v says more, -q nothing but errors"},
        {"silent s", kEvery, "--quiet", ""},
        {"vv", kEvery, "--verbose", ""},
        {"log_file", kEvery & ~kRecipes, "--log_dir DIR", ""},
        {"no_progress", kEvery & ~kRecipes, "--progress none", ""},
        {"help_all usage", kEvery, "--help", ""},

        // The Hub.
        {"push_to_hub upload", kWriting, "--hf_upload_path ORG/NAME", ""},
        {"repo repo_id hub_repo hub_model_id", kWriting, "--hf_upload_path ORG/NAME", ""},
        {"private_repo hub_private_repo", kWriting, "--private", ""},
        {"public", kWriting, "",
         "leave --private out: a new repository follows the owner's settings"},
        {"token hf_token hub_token use_auth_token", kWriting, "", kToken},

        // Comparing and checking.
        {"ref reference", kTest, "--test_hf_dir DIR", ""},
        {"tol eps tolerance", kTest | kDiff, "--atol X", "and --rtol X"},
        {"all", kDiff | kTest, "-v", ""},
        {"full tensors", kInspect, "--all", ""},
        {"tensor_parallel_size tensor_parallel tp_size num_shard", kServing, "--tp", "", true},
        {"pipeline_parallel_size pipeline_parallel pp_size", kServing, "--pp", "", true},
        {"n gpus n_gpus num_gpus devices", kServing, "--tp N", ""},
        {"vllm", kServing, "--target vllm", ""},
        {"sglang", kServing, "--target sglang", ""},
        {"tgi", kServing, "--target tgi", ""},
        {"gguf", kServing, "--target llama.cpp", ""},
        {"transformers", kServing, "--target transformers", ""},
        {"engine server backend framework", kServing, "--target NAME", ""},
        {"f y yes force", kClean, "", "clean asks nothing: without --dry_run it removes"},
        {"n", kClean, "--dry_run", ""},
        {"days age", kClean, "--older_than TIME", "for example 7d"},

        // Beside a training run.
        {"resume restart if_complete", kWatch, "",
         "it is not needed: a watch goes on with what is done, and makes no output twice"},
        {"report", kWatch, "", "each output has its report in its directory"},
        {"iteration step steps start", kWatch, "--from STEP", ""},
        {"poll poll_interval period sleep", kWatch, "--interval TIME", ""},
        {"save_total_limit keep_last max_to_keep", kWatch, "--keep N", ""},
        {"exec run hook on_step callback", kWatch, "--then CMD", ""},
        {"then_shell", kWatch, "", "it is gone: --then \"sh -c 'COMMAND'\" has a shell read it"},
        {"timeout idle_timeout", kWatch, "--idle_exit TIME", ""},
    };
    return rows;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<TypedValue>& typed_values() {
    constexpr std::string_view kGgufTypes =
        "k-quants are llama-quantize's: give it what --quantize gguf:bf16 writes";
    static const std::vector<TypedValue> rows = {
        {"quantize", "fp8 float8 fp8-e4m3 float8-e4m3fn finegrained-fp8 deepseek", "fp8-block", ""},
        {"quantize", "w8a8 compressed-tensors", "fp8-channel", ""},
        {"quantize", "int8 8bit 8-bit", "w8a16", ""},
        {"quantize", "q8", "gguf:q8_0", "or w8a16 for vLLM"},
        {"quantize", "int4 4bit 4-bit nf4 bnb bitsandbytes", "w4a16", ""},
        {"quantize", "q4", "gguf:q4_0", "or w4a16 for vLLM"},
        {"quantize", "awq", "w4a16", "awq's own form is not written"},
        {"quantize", "gptq", "w4a16", "gptq's own form is not written"},
        {"quantize", "fp4", "nvfp4a16", "or mxfp4"},
        {"quantize", "nvfp4", "nvfp4a16", ""},
        {"quantize", "gguf", "gguf:q8_0", ""},
        {"quantize", "f16 fp16", "gguf:f16", "or --dtype fp16 for safetensors"},
        {"quantize", "bf16", "gguf:bf16", "or --dtype bf16 for safetensors"},
        {"quantize", "f32", "gguf:f32", "or --dtype fp32 for safetensors"},
        {"quantize", "q4-k-m q4-k-s q4-k q2-k q3-k-m iq4-nl iq4-xs", "gguf:q4_0", kGgufTypes},
        {"quantize", "q5-k-m q5-k-s", "gguf:q5_0", kGgufTypes},
        {"quantize", "q6-k", "gguf:q8_0", kGgufTypes},
        {"dtype", "bfloat bf", "bf16", ""},
        {"dtype", "fp", "fp16", ""},
        {"dtype", "double float64 fp64", "fp32", "64-bit floats are not written"},
        {"dtype", "auto", "", "leave --dtype out: floats then stay as they are stored"},
        {"dtype", "int8", "--quantize w8a16", ""},
        {"dtype", "int4", "--quantize w4a16", ""},
        {"dtype", "q8-0 gguf", "--quantize gguf:q8_0", ""},
        {"lora", "merge add apply fuse true yes", "fold", ""},
        {"lora", "keep separate adapter", "split", ""},
        {"lora", "no none false ignore", "drop", ""},
        {"backend", "megatron-lm megatron-core mcore mbridge nemo torch-dist zarr", "megatron", ""},
        {"backend", "ds zero zero2 zero3 universal", "deepspeed", ""},
        {"backend", "verl", "fsdp", "or megatron; auto finds out which"},
        {"backend", "fsdp1 fsdp2 accelerate", "fsdp", ""},
        {"backend", "torch pytorch distcp torchtitan olmo", "dcp", ""},
        {"backend", "huggingface transformers safetensors", "hf", ""},
        {"backend", "lora adapter", "peft", ""},
        {"backend", "h5", "hdf5", ""},
        {"backend", "colossal", "colossalai", ""},
        {"backend", "any", "auto", ""},
        {"target", "hf huggingface", "transformers", ""},
        {"target", "llamacpp llama-cpp llama gguf ollama lmstudio", "llama.cpp", ""},
        {"target", "sgl", "sglang", ""},
        {"target", "text-generation-inference", "tgi", ""},
        {"output-format", "hf huggingface st", "safetensors", ""},
        {"output-format", "bin pt torch pytorch", "safetensors",
         "torch files are read, not written"},
        {"output-format", "h5", "hdf5", ""},
        {"output-format", "gguf", "--quantize gguf:q8_0", "or another one of gguf:*"},
        {"weights", "fp32 optimizer", "master", ""},
        {"weights", "bf16 module", "model", ""},
        {"role", "value reward", "critic", ""},
        {"role", "policy", "actor", ""},
        {"names", "hf huggingface", "hub", ""},
        {"names", "original raw", "module", ""},
        {"strategy", "default", "auto", ""},
        {"replicas", "all", "verify", ""},
        {"replicas", "none skip", "trust", ""},
        {"if-complete", "ok", "skip", ""},
        {"if-complete", "check", "verify", ""},
        {"check-crc", "none no false", "off", ""},
        {"read-ahead", "on true", "yes", ""},
        {"read-ahead", "off false", "no", ""},
        {"progress", "off no false", "none", ""},
    };
    return rows;
}

const TypedOption* find_typed_option(std::string_view typed, Command command) {
    typed.remove_prefix(std::min(typed.find_first_not_of('-'), typed.size()));
    const std::string name = replaced(std::string(typed), "-", "_");
    const auto& rows = typed_options();
    const auto found = std::ranges::find_if(rows, [&](const TypedOption& row) {
        return is_among(name, row.typed) && (row.commands & bit_of(command)) != 0;
    });
    return found == rows.end() ? nullptr : &*found;
}

std::string option_guess(std::string_view typed, Command command) {
    const TypedOption* const row = find_typed_option(typed, command);
    return row == nullptr ? "" : guess_text(row->means, row->text);
}

std::string command_guess(std::string_view typed) {
    const std::string name = replaced(plain(typed), "-", "_");
    const auto* const found = std::ranges::find_if(
        kTypedCommands, [&](const TypedCommand& row) { return is_among(name, row.typed); });
    if (found == std::end(kTypedCommands)) {
        return "";
    }
    return guess_text(found->means.empty() ? "" : "shardweld " + std::string(found->means),
                      found->text);
}

std::string value_guess(std::string_view option, std::string_view typed,
                        const std::vector<std::string>& known) {
    const std::string name = plain(option);
    const std::string value = plain(typed);
    for (const TypedValue& row : typed_values()) {
        if (row.option == name && is_among(value, row.typed)) {
            return guess_text(row.means, row.text);
        }
    }
    for (const std::string& one : known) {
        // "vLLM", and "q8_0" for "gguf:q8_0".
        if (plain(one) == value || plain(one).ends_with(":" + value)) {
            return guess_text(one, "");
        }
    }
    return suggestion(typed, known);
}

}  // namespace shardweld::app
