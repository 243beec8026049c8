// make_checkpoint OUT ...: a synthetic checkpoint of a given size, for benches and tests.
// make_checkpoint --check DIR ...: compares a merge of it with what it must be.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <thread>

#include <cxxopts.hpp>

#include "shardweld/error.hpp"

#include "check.hpp"
#include "checkpoint.hpp"

namespace {

namespace bench = shardweld::bench;
using bench::Checkpoint;
using bench::Grid;
using shardweld::Bytes;
using shardweld::DType;
using shardweld::Error;
using shardweld::ErrorCode;
using shardweld::Index;

cxxopts::Options make_options() {
    cxxopts::Options options("make_checkpoint",
                             "Writes OUT/source (a checkpoint) and OUT/hf (its config), or "
                             "compares a merged directory with it.");
    auto add = options.add_options();
    add("out", "directory to write", cxxopts::value<std::string>());
    add("gb", "size of the weights in GB", cxxopts::value<double>()->default_value("1"));
    add("model", "llama (of --gb), or with experts: moe (1 MB), 671b, 1t",
        cxxopts::value<std::string>()->default_value("llama"));
    add("vocab", "rows of embedding and head of a llama; 0: as the size has it",
        cxxopts::value<Index>()->default_value("0"));
    add("layers", "of models with experts; 0: their own number",
        cxxopts::value<Index>()->default_value("0"));
    add("format", "legacy, torch_dist, fsdp or zero3",
        cxxopts::value<std::string>()->default_value("legacy"));
    add("tp", "tensor parallel ranks", cxxopts::value<Index>()->default_value("2"));
    add("pp", "pipeline stages", cxxopts::value<Index>()->default_value("1"));
    add("vpp", "virtual stages per rank", cxxopts::value<Index>()->default_value("1"));
    add("ep", "expert parallel ranks", cxxopts::value<Index>()->default_value("1"));
    add("etp", "tensor parallel ranks of experts", cxxopts::value<Index>()->default_value("1"));
    add("writers", "torch_dist: files of a rank", cxxopts::value<Index>()->default_value("2"));
    add("states", "torch_dist: also the states of an optimizer");
    add("dtype", "bf16 or fp32", cxxopts::value<std::string>()->default_value("bf16"));
    add("seed", "of the values", cxxopts::value<std::uint64_t>()->default_value("0"));
    add("sparse", "zeros, as holes of the files");
    add("merged_dtype", "bf16 or fp32: what --check expects, if not --dtype",
        cxxopts::value<std::string>());
    add("check", "merged directory to compare instead", cxxopts::value<std::string>());
    add("sample", "compare a few blocks of each tensor only");
    add("threads", "0: as many as cores", cxxopts::value<unsigned>()->default_value("0"));
    add("help", "this text");
    options.parse_positional({"out"});
    options.positional_help("OUT");
    return options;
}

DType dtype_of(const std::string& name, const std::string& option) {
    if (name != "bf16" && name != "fp32") {
        throw Error(ErrorCode::usage, option + " is " + name + ", expected bf16 or fp32");
    }
    return name == "bf16" ? DType::bf16 : DType::f32;
}

DType merged_dtype(const cxxopts::ParseResult& given) {
    const char* const option = given.count("merged_dtype") != 0 ? "merged_dtype" : "dtype";
    return dtype_of(given[option].as<std::string>(), "--" + std::string(option));
}

Checkpoint checkpoint_of(const cxxopts::ParseResult& given) {
    Checkpoint checkpoint;
    Grid& grid = checkpoint.grid;
    const auto number = [&](const char* name) { return given[name].as<Index>(); };
    grid = {number("tp"), number("pp"),  number("vpp"),
            number("ep"), number("etp"), number("writers")};
    checkpoint.values.dtype = dtype_of(given["dtype"].as<std::string>(), "--dtype");
    checkpoint.values.seed = given["seed"].as<std::uint64_t>();
    checkpoint.values.is_sparse = given.count("sparse") != 0;
    checkpoint.has_states = given.count("states") != 0;
    const Index least = std::min({grid.tp, grid.pp, grid.vpp, grid.ep, grid.etp, grid.writers});
    if (least < 1 || (grid.vpp > 1 && grid.pp == 1)) {
        throw Error(ErrorCode::usage,
                    "tp, pp, vpp, ep, etp, writers must be positive, and vpp > 1 needs pp > 1");
    }
    const auto model = given["model"].as<std::string>();
    if (model != "llama") {
        checkpoint.model = bench::model_named(model, number("layers"), grid);
        return checkpoint;
    }
    checkpoint.model = bench::model_of_size(given["gb"].as<double>() * 1e9, checkpoint.values.dtype,
                                            checkpoint.grid);
    if (const Index rows = number("vocab"); rows > 0) {
        checkpoint.model.vocab = rows;
    }
    return checkpoint;
}

int check(const cxxopts::ParseResult& given, const Checkpoint& checkpoint, unsigned n_threads) {
    const auto directory = given["check"].as<std::string>();
    const auto result = bench::check_merge(directory, checkpoint, merged_dtype(given),
                                           given.count("sample") != 0, n_threads);
    for (const std::string& difference : result.differences) {
        std::fprintf(stderr, "%s\n", difference.c_str());
    }
    std::printf(
        "%s: %lld tensors, %.3f GB compared\n", result.differences.empty() ? "equal" : "different",
        static_cast<long long>(result.n_tensors), static_cast<double>(result.compared_bytes) / 1e9);
    return result.differences.empty() ? 0 : 1;
}

int make(const cxxopts::ParseResult& given, const Checkpoint& checkpoint, unsigned n_threads) {
    if (given.count("out") == 0) {
        throw Error(ErrorCode::usage, "name a directory to write");
    }
    const std::string out = given["out"].as<std::string>();
    const auto format = given["format"].as<std::string>();
    const std::map<std::string, decltype(&bench::write_legacy)> writers = {
        {"legacy", &bench::write_legacy},
        {"torch_dist", &bench::write_torch_dist},
        {"fsdp", &bench::write_fsdp},
        {"zero3", &bench::write_zero3}};
    const auto writer = writers.find(format);
    if (writer == writers.end()) {
        throw Error(ErrorCode::usage,
                    "--format is " + format + ", expected legacy, torch_dist, fsdp or zero3");
    }
    if (checkpoint.has_states && format != "torch_dist") {
        throw Error(ErrorCode::usage, "--states needs --format torch_dist");
    }
    const auto begin = std::chrono::steady_clock::now();
    const Bytes bytes = writer->second(out, checkpoint, n_threads);
    bench::write_hub_config(out, checkpoint);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double gb = static_cast<double>(bytes) / 1e9;
    std::printf("%s: %.3f GB, %lld layers, hidden %lld, %.1f s, %.2f GB/s\n", format.c_str(), gb,
                static_cast<long long>(checkpoint.model.layers),
                static_cast<long long>(checkpoint.model.hidden), taken.count(), gb / taken.count());
    return 0;
}

int run(int argc, char** argv) {
    auto options = make_options();
    const auto given = options.parse(argc, argv);
    if (given.count("help") != 0) {
        std::printf("%s", options.help().c_str());
        return 0;
    }
    const Checkpoint checkpoint = checkpoint_of(given);
    const auto asked = given["threads"].as<unsigned>();
    const unsigned n_threads =
        asked != 0 ? asked : std::max(std::thread::hardware_concurrency(), 1U);
    return given.count("check") != 0 ? check(given, checkpoint, n_threads)
                                     : make(given, checkpoint, n_threads);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const Error& error) {
        std::fprintf(stderr, "make_checkpoint: %s\n", error.full_text().c_str());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_checkpoint: %s\n", error.what());
        return 2;
    }
}
