#include "command_table.hpp"

namespace shardweld::app {

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<CommandRow>& command_rows() {
    static const std::vector<CommandRow> rows = {
        {"merge",
         Command::merge,
         {"local_dir", "target_dir"},
         "shardweld merge DIR [OUT] [options]",
         "merge a checkpoint into a HuggingFace model directory",
         "Sizes: 5GB is 5e9 bytes, 5GiB and 5G are 5 * 2^30.\n"
         "The target appears complete or not at all. Runs alone, under mpirun and under srun.\n"
         "\n"
         "Examples:\n"
         "  shardweld merge ckpt/global_step_100/actor merged\n"
         "  mpirun -n 8 shardweld merge iter_0000010 merged --hf_config Qwen3-8B --dtype bf16\n"
         "  shardweld merge Qwen3-8B Qwen3-8B-FP8 --quantize fp8-block\n"
         "  shardweld merge ckpt/global_step_100/actor model-q8_0.gguf\n"
         "  shardweld merge --average step_100 step_200 step_300 merged\n",
         {"local_dir", "hf_config", "target_dir", "overwrite", "backend", "dtype", "max_shard_size",
          "lora", "report", "resume"}},
        {"reshape",
         Command::merge,
         {"local_dir", "target_dir"},
         "shardweld reshape DIR OUT --to FORM|--like DIR [options]",
         "write a training checkpoint of another form, of any checkpoint or model",
         "With --to hf it is merge, and takes all of its options. Weights only: training goes on "
         "from\nthem with a new optimizer.\n"
         "\n"
         "Examples:\n"
         "  shardweld reshape Qwen3-8B ckpt --to torch_dist\n"
         "  mpirun -n 8 shardweld reshape Qwen3-8B ckpt --to legacy:tp=8,pp=4\n"
         "  shardweld reshape iter_0000010 ckpt --to fsdp:world=16 --hf_config Qwen3-8B\n"
         "  shardweld reshape Qwen3-8B ckpt --like old_run/iter_0000010\n",
         {"local_dir", "hf_config", "target_dir", "to", "like", "overwrite", "dtype", "report",
          "resume", "recipe"},
         true},
        {"plan",
         Command::plan,
         {"local_dir", "target_dir"},
         "shardweld plan DIR [OUT] [--ranks N] [options]",
         "dry run: show files, memory, time and how many ranks to use",
         "Takes the options of merge. The answer comes first, the details below it. Needs no MPI,\n"
         "whatever --ranks says.\n"
         "\n"
         "Examples:\n"
         "  shardweld plan ckpt/global_step_100/actor --ranks 64\n"
         "  shardweld plan iter_0000010 --hf_config Qwen3-8B --json\n"
         "  shardweld sbatch ckpt/global_step_100/actor merged --nodes 2 --ranks 8 > "
         "merge.sbatch\n",
         {"local_dir", "hf_config", "target_dir", "ranks", "strategy", "memory_limit", "trace",
          "inputs", "dtype", "json"}},
        {"inspect",
         Command::inspect,
         {"local_dir"},
         "shardweld inspect DIR [options]",
         "show what a checkpoint holds, and the command that merges it",
         "Reads metadata only, no tensor data, and runs no code of the checkpoint. The word "
         "inspect\n"
         "may be left out: shardweld DIR.\n"
         "\n"
         "Examples:\n"
         "  shardweld inspect ckpt/global_step_100\n"
         "  shardweld inspect iter_0000010 --json\n",
         {"local_dir", "backend", "hf_config", "iteration", "role", "prefix", "json", "verbose",
          "quiet", "help"}},
        {"recipes",
         Command::recipes,
         {"topic"},
         "shardweld recipes [NAME] [options]",
         "list the model families, or print a recipe",
         "--config prints as JSON which tensors a config.json stands for, in the family NAME or in "
         "its\nown. recipes suggest and recipes check are commands of their own.\n"
         "\n"
         "Examples:\n"
         "  shardweld recipes\n"
         "  shardweld recipes qwen3_moe > mine.recipe\n"
         "  shardweld recipes --config Qwen3-8B --json\n"
         "  shardweld recipes check mine.recipe --ref new-model\n"},
        {"test",
         Command::test,
         {"local_dir", "test_hf_dir"},
         "shardweld test DIR MODEL [options]",
         "compare what a merge would write with a model, and write nothing",
         "Exit code 13 if they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 8 shardweld test ckpt/global_step_100/actor merged\n",
         {"local_dir", "test_hf_dir", "hf_config", "backend", "dtype", "lora", "atol", "rtol",
          "strict_dtype", "json"}},
        {"diff",
         Command::diff,
         {"local_dir", "test_hf_dir"},
         "shardweld diff MODEL [MODEL] [options]",
         "compare two model directories",
         "Exit code 13 if they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 4 shardweld diff merged Qwen3-8B --atol 1e-3\n"
         "  mpirun -n 4 shardweld diff Qwen3-8B-FP8 Qwen3-8B-W4A16 --base Qwen3-8B\n",
         {"atol", "rtol", "strict_dtype", "base", "check_crc", "bw_limit", "json", "verbose",
          "quiet", "help"}},
        {"verify",
         Command::verify,
         {"local_dir"},
         "shardweld verify DIR [--report FILE] [options]",
         "re-read a written model: check its files, index and checksums",
         "Exit code 13 if a tensor differs from the report.\n"
         "\n"
         "Examples:\n"
         "  shardweld verify merged\n",
         {"local_dir", "report", "sha256", "bw_limit", "json", "log_dir", "progress", "verbose",
          "quiet", "help"}},
        {"clean",
         Command::clean,
         {"local_dir"},
         "shardweld clean DIR [--older_than TIME] [--dry_run] [options]",
         "remove unfinished work that killed merges left below DIR",
         "Hidden directories beside targets, as large as the model, and lock files. What a running "
         "merge\nholds stays, and so does what belongs to another user.\n"
         "\n"
         "Examples:\n"
         "  shardweld clean /scratch/models --dry_run\n"
         "  shardweld clean /scratch/models --older_than 7d\n"},
    };
    return rows;
}

}  // namespace shardweld::app
