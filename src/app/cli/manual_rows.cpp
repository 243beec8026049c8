#include "manual_rows.hpp"

#include "command_table.hpp"

namespace shardweld::app {

namespace {

constexpr unsigned kParallel = kEvery & ~kRecipes;
constexpr unsigned kPlanned = kMerge | kPlan | kTest;
constexpr unsigned kChecked = kPlanned | kInspect | kDiff | kVerify;
constexpr unsigned kUploading = kMerge | kUpload;

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<ExitRow>& exit_rows() {
    static const std::vector<ExitRow> rows = {
        {ErrorCode::ok, "done", kEvery},
        {ErrorCode::usage, "the command line, a recipe or the choice of a directory is wrong",
         kEvery},
        {ErrorCode::not_found, "no checkpoint or model, or an incomplete one", kEvery},
        {ErrorCode::corrupt, "a file is damaged or hostile", kChecked},
        {ErrorCode::unsupported, "recognised, but not handled", kParallel},
        {ErrorCode::mismatch, "shapes, dtypes, ranks, config or cover contradict each other",
         kChecked},
        {ErrorCode::io, "reading or writing failed", kEvery},
        {ErrorCode::space, "disk, quota or inodes are exhausted", kPlanned | kVerify | kIobench},
        {ErrorCode::memory, "not enough memory", kEvery},
        {ErrorCode::launch, "MPI or the launcher", kParallel},
        {ErrorCode::stopped, "stopped, can be resumed", kMerge},
        {ErrorCode::target,
         "the target, or the place of a log, exists, is locked, or may not be written", kParallel},
        {ErrorCode::differs, "a comparison found differences", kTest | kDiff | kVerify},
        {ErrorCode::strict, "a warning under --strict", kPlanned},
        {ErrorCode::no_client, "upload: no client", kUploading},
        {ErrorCode::no_token, "upload: no token", kUploading},
        {ErrorCode::no_rights, "upload: the token or its rights were refused", kUploading},
        {ErrorCode::no_repository, "upload: no such repository or owner", kUploading},
        {ErrorCode::no_network, "upload: the Hub cannot be reached", kUploading},
        {ErrorCode::interrupted, "upload: began and did not finish", kUploading},
        {ErrorCode::internal, "a bug in shardweld", kEvery},
    };
    return rows;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<ManualRow>& environment_rows() {
    static const std::vector<ManualRow> rows = {
        {"OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS, PALS_RANKID, "
         "SLURM_STEP_NUM_TASKS",
         "set by launchers. They tell whether MPI is to be started, and how many ranks must then "
         "find each other.",
         kParallel},
        {"OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, PALS_RANKID, SLURM_PROCID",
         "the rank, before MPI is started: only the first one speaks.", kEvery},
        {"OMPI_MCA_pml, OMPI_MCA_mtl",
         "the transport of Open MPI. Where neither is set and the node has no fast network, ob1 is "
         "taken, which saves the search for one.",
         kParallel},
        {"SLURM_JOB_ID, SLURM_JOB_END_TIME",
         "the job and its end, before which a merge stops by itself (--stop_before).", kMerge},
        {"SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU, SLURM_CPUS_ON_NODE",
         "the job's memory, beside that of its cgroup: they bound the default of --memory_limit.",
         kPlanned},
        {"HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HOME, XDG_CACHE_HOME, "
         "HF_OIDC_RESOURCE",
         "the Hub's token, or where its client keeps it. It is not printed.", kUploading},
        {"PATH", "where hf (uploads), lfs (striping) and squeue (the job's end) are searched.",
         kPlanned | kUpload | kIobench},
        {"OPAL_PREFIX, LD_LIBRARY_PATH",
         "where a program that is not linked with MPI, such as that of the wheel, looks first for "
         "the library of its ranks.",
         kParallel},
    };
    return rows;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<ManualRow>& file_rows() {
    static const std::vector<ManualRow> rows = {
        {"config.json",
         "the HuggingFace config, from the checkpoint (huggingface/) or --hf_config, with the "
         "tokenizer beside it.",
         kPlanned | kInspect},
        {".NAME.shardweld-partial",
         "beside the target NAME: what a merge has written so far, with the journal that --resume "
         "reads. Renamed to NAME at the end.",
         kMerge},
        {".NAME.shardweld-lock", "beside the target NAME: held by the merge into it.", kMerge},
        {".NAME.shardweld-old", "beside the target NAME: the model that --overwrite replaces.",
         kMerge},
        {".shardweld-partial, .shardweld-lock, .shardweld-old",
         "the same inside the target, where nothing can be created beside it.", kMerge},
        {"lora_adapter/", "in the target: the adapter of --lora split.", kMerge},
        {"model.safetensors, model.safetensors.index.json, config.json",
         "a model's weights, or their index, and its config.", kDiff | kVerify | kUpload},
        {".shardweld-iobench-*", "in DIR: the files that are measured with; removed at the end.",
         kIobench},
        {"rank-0000.log", "in the directory of --log_dir: what the first rank says and does.",
         kParallel},
        {"lib/shardweld/shardweld_hdf5.so, lib/shardweld/shardweld_hdf5_list",
         "beside the program's directory: what writes and lists HDF5 files.", kPlanned | kInspect},
        {"share/doc/shardweld/docs/using/recipes.md", "the language of recipes and dialects.",
         kRecipes},
    };
    return rows;
}

}  // namespace shardweld::app
