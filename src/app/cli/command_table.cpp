#include "command_table.hpp"

namespace shardweld::app {

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<CommandRow>& command_rows() {
    static const std::vector<CommandRow> rows = {
        {"merge", Command::merge, 0, "shardweld merge --local_dir DIR [--target_dir DIR] [options]",
         "merge a checkpoint into a HuggingFace model directory",
         "Sizes: 5GB is 5e9 bytes, 5GiB and 5G are 5 * 2^30.\n"
         "The target appears complete or not at all. Runs alone, under mpirun and under srun.\n"
         "\n"
         "Examples:\n"
         "  shardweld merge --local_dir ckpt/global_step_100/actor --target_dir merged\n"
         "  mpirun -n 8 shardweld merge --local_dir iter_0000010 --hf_config Qwen3-8B \\\n"
         "      --target_dir merged --dtype bf16\n"},
        {"plan", Command::plan, 0, "shardweld plan --local_dir DIR [--ranks N] [options]",
         "print what a merge would write, read, send and need; writes nothing",
         "Takes the options of merge; needs no MPI, whatever --ranks says.\n"
         "\n"
         "Examples:\n"
         "  shardweld plan --local_dir ckpt/global_step_100/actor --ranks 64\n"
         "  shardweld plan --local_dir iter_0000010 --hf_config Qwen3-8B --json\n"
         "  shardweld plan --local_dir ckpt/global_step_100/actor --target_dir merged \\\n"
         "      --sbatch --nodes 2 --ranks 8 > merge.sbatch\n"},
        {"inspect", Command::inspect, 1, "shardweld inspect DIR [options]",
         "print what a checkpoint holds",
         "Reads metadata only, no tensor data, and runs no code of the checkpoint.\n"
         "\n"
         "Examples:\n"
         "  shardweld inspect ckpt/global_step_100\n"
         "  shardweld inspect iter_0000010 --json\n"},
        {"recipes", Command::recipes, 1, "shardweld recipes [NAME] [options]",
         "list the model families, or print one recipe or dialect",
         "Examples:\n"
         "  shardweld recipes\n"
         "  shardweld recipes qwen3_moe > mine.recipe\n"},
        {"test", Command::test, 0, "shardweld test --local_dir DIR --test_hf_dir DIR [options]",
         "compare what a merge would write with a model; writes nothing",
         "Exit code 13 when they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 8 shardweld test --local_dir ckpt/global_step_100/actor \\\n"
         "      --test_hf_dir merged\n"},
        {"diff", Command::diff, 2, "shardweld diff DIR DIR [options]",
         "compare two model directories",
         "Exit code 13 when they differ.\n"
         "\n"
         "Examples:\n"
         "  mpirun -n 4 shardweld diff merged Qwen3-8B --atol 1e-3\n"},
        {"verify", Command::verify, 1, "shardweld verify DIR [--report FILE] [options]",
         "check a written model against the format's rules, its index and its report",
         "Exit code 13 when a tensor is not the one that the report describes.\n"
         "\n"
         "Examples:\n"
         "  shardweld verify merged --report merged.json\n"},
        {"upload", Command::upload, 1, "shardweld upload DIR --hf_upload_path ORG/NAME [options]",
         "upload a written model to the Hub",
         "Runs the official client. The token is the client's: hf auth login, or HF_TOKEN.\n"
         "\n"
         "Examples:\n"
         "  shardweld upload merged --hf_upload_path me/my-model --private\n"},
        {"iobench", Command::iobench, 1, "shardweld iobench DIR [options]",
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
    return rows;
}

}  // namespace shardweld::app
