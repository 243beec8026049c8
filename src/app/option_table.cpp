#include "option_table.hpp"

#include <algorithm>
#include <array>

namespace shardweld::app {

const std::vector<OptionLine>& option_lines() {
    constexpr unsigned kModel = kMerge | kPlan;
    constexpr unsigned kInput = kMerge | kPlan | kInspect;
    static const std::vector<OptionLine> lines = {
        {"local_dir", 0, "DIR", kInput, "Input",
         "checkpoint: a step, iteration or shard directory"},
        {"backend", 0, "NAME", kInput, "Input", "auto (default) or megatron"},
        {"hf_config", 0, "DIR", kInput, "Input",
         "directory with config.json and the tokenizer; needed when the checkpoint has none"},
        {"hf_model_path", 0, "DIR", kInput, "", "older name of --hf_config"},
        {"iteration", 0, "N", kInput, "Input", "which iteration, when there are several"},
        {"role", 0, "NAME", kInput, "Input", "actor or critic, when there are both"},
        {"recipe", 0, "FILE", kModel | kRecipes, "Input",
         "a recipe or dialect file to use beside the built-in ones"},
        {"max_open", 0, "N", kModel, "Input", "input files kept open by a rank (default 64)"},

        {"target_dir", 0, "DIR", kModel, "Output", "directory to write (default tmp)"},
        {"overwrite", 0, "", kModel, "Output", "replace a target that is not empty"},
        {"dtype", 0, "TYPE", kModel, "Output",
         "write floats as bf16, fp16 or fp32 (default: as stored)"},
        {"max_shard_size", 0, "SIZE", kModel, "Output", "tensor bytes in a file (default 5GB)"},
        {"no_fsync", 0, "", kModel, "Output", "do not wait until files are on disk"},
        {"report", 0, "FILE", kModel, "Output", "write a report in JSON"},

        {"tie_word_embedding", 0, "", kModel, "Model", "embedding and output head are one tensor"},
        {"is_value_model", 0, "", kModel, "Model", "a value model: the head is score.weight"},

        {"strategy", 0, "NAME", kModel, "Execution",
         "auto (default), collective (read each shard once and send), direct (owners read)"},
        {"replicas", 0, "HOW", kModel, "Execution",
         "copies of one tensor: auto (default), verify (compare all), trust (compare none)"},
        {"memory_limit", 0, "SIZE", kModel, "Execution",
         "buffers of a rank (default 256MiB, less where a job has less)"},
        {"message_limit", 0, "SIZE", kModel, "Execution",
         "expert: largest message between two ranks"},
        {"strict", 0, "", kModel, "Execution", "warnings end the run with exit code 14"},
        {"ranks", 0, "N", kPlan, "Execution", "plan for so many ranks (default 1)"},

        {"json", 0, "", kPlan | kInspect, "Messages", "print JSON"},
        {"verbose", 'v', "", kEvery, "Messages", "same as --log_level debug"},
        {"quiet", 'q', "", kEvery, "Messages", "errors only, no progress"},
        {"log_level", 0, "LEVEL", kEvery, "Messages", "error, warning, info (default) or debug"},
        {"help", 'h', "", kEvery, "Messages", "this text"},

        {"use_cpu_initialization", 0, "", kInput, "", "accepted for verl's sake; changes nothing"},
        {"trust_remote_code", 0, "", kInput, "", "accepted for verl's sake; changes nothing"},
    };
    return lines;
}

const std::vector<CommandLine>& command_lines() {
    static const std::vector<CommandLine> lines = {
        {"merge", Command::merge, kMerge,
         "shardweld merge --local_dir DIR [--target_dir DIR] [options]",
         "merge a checkpoint into a HuggingFace model directory",
         "Sizes: 5GB is 5e9 bytes, 5GiB and 5G are 5 * 2^30.\n"
         "The target appears complete or not at all. Runs alone, under mpirun and under srun.\n"
         "\n"
         "Examples:\n"
         "  shardweld merge --local_dir ckpt/global_step_100/actor --target_dir merged\n"
         "  mpirun -n 8 shardweld merge --local_dir iter_0000010 --hf_config Qwen3-8B \\\n"
         "      --target_dir merged --dtype bf16\n"},
        {"plan", Command::plan, kPlan, "shardweld plan --local_dir DIR [--ranks N] [options]",
         "print what a merge would write, read, send and need; writes nothing",
         "Takes the options of merge; needs no MPI, whatever --ranks says.\n"
         "\n"
         "Examples:\n"
         "  shardweld plan --local_dir ckpt/global_step_100/actor --ranks 64\n"
         "  shardweld plan --local_dir iter_0000010 --hf_config Qwen3-8B --json\n"},
        {"inspect", Command::inspect, kInspect, "shardweld inspect DIR [options]",
         "print what a checkpoint holds",
         "Reads metadata only, no tensor data, and runs no code of the checkpoint.\n"
         "\n"
         "Examples:\n"
         "  shardweld inspect ckpt/global_step_100\n"
         "  shardweld inspect iter_0000010 --json\n"},
        {"recipes", Command::recipes, kRecipes, "shardweld recipes [NAME] [options]",
         "list the model families, or print one recipe or dialect",
         "Examples:\n"
         "  shardweld recipes\n"
         "  shardweld recipes qwen3_moe > mine.recipe\n"},
    };
    return lines;
}

bool is_later_option(std::string_view name) {
    constexpr std::array<std::string_view, 20> kLater = {
        "test_hf_dir", "hf_upload_path", "hf_upload",    "private",
        "resume",      "weights",        "include",      "exclude",
        "lora",        "base",           "sha256",       "map",
        "quantize",    "bw_limit",       "max_readers",  "stall_timeout",
        "operation",   "ref_model_path", "strict_dtype", "tokenizer"};
    return std::find(kLater.begin(), kLater.end(), name) != kLater.end();
}

bool is_later_command(std::string_view name) {
    constexpr std::array<std::string_view, 4> kLater = {"test", "diff", "verify", "upload"};
    return std::find(kLater.begin(), kLater.end(), name) != kLater.end();
}

}  // namespace shardweld::app
