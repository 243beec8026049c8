#include "option_table.hpp"

#include <algorithm>
#include <array>

namespace shardweld::app {

namespace {

/// "safetensors (default) or hdf5"
std::string output_formats() {
    const auto& formats = outputs::all_formats();
    std::string text = std::string(formats.front()->name()) + " (default)";
    for (std::size_t i = 1; i < formats.size(); ++i) {
        text += (i + 1 < formats.size() ? ", " : " or ") + std::string(formats[i]->name());
    }
    return text;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<OptionLine>& option_lines() {
    constexpr unsigned kWrite = kMerge | kPlan;
    constexpr unsigned kModel = kWrite | kTest;
    constexpr unsigned kInput = kModel | kInspect;
    static const std::string formats = output_formats();
    static const std::vector<OptionLine> lines = {
        {"local_dir", 0, "DIR", kInput, "Input",
         "checkpoint: a step, iteration or shard directory"},
        {"backend", 0, "NAME", kInput, "Input", "auto (default), megatron, fsdp, dcp, hf or hdf5"},
        {"hf_config", 0, "DIR", kInput, "Input",
         "directory with config.json and the tokenizer; needed when the checkpoint has none"},
        {"hf_model_path", 0, "DIR", kInput, "", "older name of --hf_config"},
        {"iteration", 0, "N", kInput, "Input", "which iteration, when there are several"},
        {"role", 0, "NAME", kInput, "Input", "actor or critic, when there are both"},
        {"recipe", 0, "FILE", kModel | kRecipes, "Input",
         "a recipe or dialect file to use beside the built-in ones"},
        {"mesh_dim_names", 0, "LIST", kInput, "Input",
         "FSDP: names of the device mesh's dims, e.g. ddp,fsdp; by hand, when detection is wrong"},
        {"mesh_shape", 0, "LIST", kInput, "Input", "FSDP: their extents, e.g. 2,4"},
        {"prefix", 0, "TEXT", kInput, "Input",
         "DCP: take the part of the state dict below TEXT and strip it from names"},
        {"check_crc", 0, "[before|during|off]", kInput | kDiff, "Input",
         "CRC-32 of torch's records: checked as they are read (during, default), in a pass of its "
         "own before anything is written (before; also without a value) or not (off)"},
        {"max_open", 0, "N", kModel, "Input", "input files kept open by a rank (default 64)"},

        {"target_dir", 0, "DIR", kWrite, "Output", "directory to write (default tmp)"},
        {"overwrite", 0, "", kWrite, "Output", "replace a target that is not empty"},
        {"dtype", 0, "TYPE", kModel, "Output",
         "write floats as bf16, fp16 or fp32 (default: as stored)"},
        {"max_shard_size", 0, "SIZE", kWrite | kIobench, "Output",
         "tensor bytes in a file (default 5GB)"},
        {"no_fsync", 0, "", kWrite | kIobench, "Output", "do not wait until files are on disk"},
        {"direct_io", 0, "", kWrite, "Output",
         "write past the page cache (O_DIRECT); slower than the default on most file systems"},
        {"stripe", 0, "COUNT[,SIZE]", kWrite | kIobench, "Output",
         "Lustre: stripe new files over COUNT targets (or all), SIZE each; needs lfs"},
        {"output_format", 0, "NAME", kWrite, "Output", formats},
        {"report", 0, "FILE", kModel | kVerify | kIobench, "Output",
         "write a report in JSON; verify: the report to check against"},
        {"sha256", 0, "", kWrite | kVerify, "Output",
         "sha256 of every file: written into the report; verify: compared with it"},
        {"paranoid", 0, "", kWrite, "Output",
         "read everything that was written back from the disk before it is published (default: "
         "samples)"},
        {"roof", 0, "FILE", kWrite, "Output",
         "a report of iobench: the merge's report and last line give its speed as a percentage"},

        {"tie_word_embedding", 0, "", kModel, "Model", "embedding and output head are one tensor"},
        {"is_value_model", 0, "", kModel, "Model", "a value model: the head is score.weight"},
        {"vocab_size", 0, "N", kModel, "Model",
         "so many rows of the vocabulary are kept, whatever config.json and the checkpoint say"},

        {"names", 0, "KIND", kModel, "Model",
         "hub (default: as save_pretrained writes them) or module (as the checkpoint has them)"},
        {"include", 0, "REGEX", kWrite, "Model",
         "write only tensors in whose names REGEX is found; the rest of the model is as ever"},
        {"exclude", 0, "REGEX", kWrite, "Model", "leave out those in whose names REGEX is found"},
        {"lora", 0, "HOW", kModel, "Model",
         "an adapter in the checkpoint: split (default: lora_adapter/ beside the base), fold (add "
         "it into the weights) or drop"},
        {"lora_alpha", 0, "X", kModel, "Model",
         "LoRA's alpha, where the checkpoint does not say it"},
        {"base", 0, "DIR", kModel, "Model",
         "the model that was trained: read where the checkpoint holds only an adapter, else "
         "compared "
         "with the result"},

        {"test_hf_dir", 0, "DIR", kTest, "Comparison", "the model to compare with"},
        {"atol", 0, "X", kTest | kDiff, "Comparison", "absolute tolerance (default 1e-6)"},
        {"rtol", 0, "X", kTest | kDiff, "Comparison", "relative tolerance (default 1e-6)"},
        {"strict_dtype", 0, "", kTest | kDiff, "Comparison",
         "another dtype is a difference (default: compared in the narrower one)"},

        {"size", 0, "SIZE", kIobench, "Measuring", "bytes written by all ranks (default 4GB)"},
        {"source", 0, "DIR", kIobench, "Measuring",
         "read and copy the files below DIR instead of files made for it"},
        {"extent", 0, "SIZE", kIobench, "Measuring", "one read and one write (default 1MiB)"},
        {"repeats", 0, "N", kIobench, "Measuring", "runs of each kind (default 3)"},
        {"cold", 0, "", kIobench, "Measuring", "drop what is read from the page cache first"},
        {"copies_only", 0, "", kIobench, "Measuring", "only what gives the roof"},
        {"keep", 0, "", kIobench, "Measuring", "do not remove the directory made in DIR"},

        {"hf_upload_path", 0, "ORG/NAME", kWrite | kUpload, "Upload",
         "upload the result to this repository of the Hub with the official client"},
        {"private", 0, "", kWrite | kUpload, "Upload", "create the repository as a private one"},
        {"hf_cli", 0, "PATH", kWrite | kUpload, "Upload",
         "the client (default: hf on PATH, from pip install huggingface_hub)"},
        {"hf_upload", 0, "", kWrite, "", "accepted for verl's sake; changes nothing"},

        {"strategy", 0, "NAME", kModel, "Execution",
         "auto (default), collective (read each shard once and send), direct (owners read)"},
        {"replicas", 0, "HOW", kModel, "Execution",
         "copies of one tensor: auto (default), verify (compare all), trust (compare none)"},
        {"memory_limit", 0, "SIZE", kModel, "Execution",
         "buffers of a rank, 1MiB at least (default 256MiB, less where a job has less)"},
        {"read_ahead", 0, "HOW", kModel, "Execution",
         "a thread reads the next round: auto (default: where a rank has two cores), yes or no"},
        {"bw_limit", 0, "SIZE", kModel | kDiff | kVerify, "Execution",
         "bytes a second that all ranks together read and write at most (default: no limit)"},
        {"max_readers", 0, "N", kModel, "Execution",
         "so many ranks read tensors and send them to the others (default: all may read)"},
        {"message_limit", 0, "SIZE", kModel, "Execution",
         "expert: largest message between two ranks"},
        {"resume", 0, "", kWrite, "Execution",
         "go on with what an earlier merge into this target left; starts anew if there is nothing"},
        {"stop_before", 0, "TIME", kWrite, "Execution",
         "stop, resumable, so long before the job ends: 90s, 5m (default under Slurm: 60s)"},
        {"stall_timeout", 0, "TIME", kWrite, "Execution",
         "end the job when the ranks make no progress for so long (default 30m; 0: never)"},
        {"strict", 0, "", kModel, "Execution", "warnings end the run with exit code 14"},
        {"ranks", 0, "N", kPlan, "Execution",
         "plan for so many ranks (default 1; with --sbatch four a node)"},
        {"sbatch", 0, "", kPlan, "Execution",
         "print a job script for Slurm that merges with these options and resumes at the time "
         "limit"},
        {"nodes", 0, "N", kPlan, "Execution", "with --sbatch: nodes of the job (default 1)"},
        {"rate", 0, "SIZE", kPlan, "Execution",
         "with --sbatch: bytes a second that the job reads and writes, for its time limit (default "
         "200MB)"},

        {"json", 0, "", kPlan | kInspect | kTest | kDiff | kVerify | kIobench, "Messages",
         "print JSON"},
        {"trace", 0, "NAME", kModel, "Messages",
         "tell one tensor's whole way: pieces, placements, layout, target"},
        {"verbose", 'v', "", kEvery, "Messages", "same as --log_level debug"},
        {"quiet", 'q', "", kEvery, "Messages", "errors only, no progress"},
        {"log_level", 0, "LEVEL", kEvery, "Messages", "error, warning, info (default) or debug"},
        {"log_dir", 0, "DIR", kEvery & ~kRecipes, "Messages",
         "every rank keeps a log in DIR: all messages, phases and files with their times"},
        {"help", 'h', "", kEvery, "Messages", "this text"},

        {"use_cpu_initialization", 0, "", kInput, "", "accepted for verl's sake; changes nothing"},
        {"trust_remote_code", 0, "", kInput, "", "accepted for verl's sake; changes nothing"},
    };
    return lines;
}

// NOLINTNEXTLINE(readability-function-size): a table
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
         "  shardweld plan --local_dir iter_0000010 --hf_config Qwen3-8B --json\n"
         "  shardweld plan --local_dir ckpt/global_step_100/actor --target_dir merged \\\n"
         "      --sbatch --nodes 2 --ranks 8 > merge.sbatch\n"},
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
        {"test", Command::test, kTest, "shardweld test --local_dir DIR --test_hf_dir DIR [options]",
         "compare what a merge would write with a model; writes nothing",
         "Exit code 13 when they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 8 shardweld test --local_dir ckpt/global_step_100/actor \\\n"
         "      --test_hf_dir merged\n"},
        {"diff", Command::diff, kDiff, "shardweld diff DIR DIR [options]",
         "compare two model directories",
         "Exit code 13 when they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 4 shardweld diff merged Qwen3-8B --atol 1e-3\n"},
        {"verify", Command::verify, kVerify, "shardweld verify DIR [--report FILE] [options]",
         "check a written model against the format's rules, its index and its report",
         "Exit code 13 when a tensor is not the one that the report describes.\n"
         "\n"
         "Examples:\n"
         "  shardweld verify merged --report merged.json\n"},
        {"upload", Command::upload, kUpload,
         "shardweld upload DIR --hf_upload_path ORG/NAME [options]",
         "upload a written model to the Hub",
         "Runs the official client. The token is the client's: hf auth login, or HF_TOKEN.\n"
         "\n"
         "Examples:\n"
         "  shardweld upload merged --hf_upload_path me/my-model --private\n"},
        {"iobench", Command::iobench, kIobench, "shardweld iobench DIR [options]",
         "measure plain parallel reads and writes in DIR: the roof of a merge",
         "Writes, reads and copies as many bytes as a merge would, with the same ranks. The copy "
         "is\n"
         "the roof. Makes a hidden directory in DIR and removes it; needs room for twice the "
         "size.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 8 shardweld iobench /scratch --report roof.json\n"
         "  mpirun -n 8 shardweld iobench /scratch --source ckpt/global_step_100/actor --cold\n"},
    };
    return lines;
}

bool is_later_option(std::string_view name) {
    constexpr std::array<std::string_view, 5> kLater = {"weights", "map", "quantize",
                                                        "ref_model_path", "tokenizer"};
    return std::find(kLater.begin(), kLater.end(), name) != kLater.end();
}

}  // namespace shardweld::app
