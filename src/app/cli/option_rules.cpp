#include "option_rules.hpp"

#include "option_value.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kLeastFile = Bytes{64} << 10U;

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

void check_needs(const Options& options) {
    if (options.sha256 && !options.report) {
        refuse("--sha256 needs a report, which holds the checksums", "add --report FILE");
    }
    if (options.command == Command::test && options.reference.empty()) {
        refuse("test needs a model to compare with", "give --test_hf_dir DIR");
    }
    if (options.upload_path.empty() &&
        (options.command == Command::upload || options.is_private || options.hf_cli)) {
        refuse("no repository is given", "add --hf_upload_path ORG/NAME");
    }
}

void check_bench(const Arguments& arguments, const Options& options) {
    if (arguments.has("source") && arguments.has("size")) {
        refuse("--size and --source exclude each other",
               "give one of them: the source has its own size");
    }
    if (options.command == Command::iobench && options.max_shard_size < kLeastFile) {
        refuse("--max_shard_size " + std::to_string(options.max_shard_size) +
                   " is too small to measure with",
               "give at least 64KiB");
    }
}

void check_loudness(const Arguments& arguments) {
    int n_levels = 0;
    for (const char* name : {"verbose", "quiet", "log_level"}) {
        n_levels += arguments.has(name) ? 1 : 0;
    }
    if (n_levels > 1) {
        refuse("--verbose, --quiet and --log_level exclude each other", "give one of them");
    }
}

void check_job(const Arguments& arguments, const Options& options) {
    if (!options.job) {
        return;
    }
    if (!arguments.has("sbatch")) {
        refuse("--nodes and --rate need --sbatch", "add it, or leave them out");
    }
    if (options.json) {
        refuse("--sbatch and --json exclude each other", "give one of them");
    }
    if (arguments.has("ranks") && options.n_ranks < options.job->n_nodes) {
        refuse("--nodes " + std::to_string(options.job->n_nodes) + " is more than --ranks " +
                   std::to_string(options.n_ranks),
               "give each node at least one rank");
    }
}

}  // namespace

void check_together(const Arguments& arguments, const Options& options) {
    check_mesh(options.mesh);
    check_needs(options);
    check_bench(arguments, options);
    if (options.max_readers > 0 && options.strategy == plan::Strategy::direct) {
        refuse("--strategy direct lets every rank read",
               "leave out one of --strategy and --max_readers");
    }
    if (options.resume && options.restart) {
        refuse("--resume and --restart exclude each other", "give one of them");
    }
    check_loudness(arguments);
    check_job(arguments, options);
}

}  // namespace shardweld::app
