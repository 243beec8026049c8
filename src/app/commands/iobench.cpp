// `shardweld iobench`: the roof of a merge, measured.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <nlohmann/json.hpp>

#include "app/merge/preflight.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/roof.hpp"
#include "app/report/session.hpp"
#include "app/runtime/scratch.hpp"
#include "app/runtime/version.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "measure/bench.hpp"
#include "mpi/share.hpp"
#include "publish/room.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using measure::Bench;
using measure::ConcatenatedFiles;
using measure::Measured;
using measure::Pass;
using measure::SizedFile;
using nlohmann::ordered_json;

/// All files below a directory with content, sorted: read once, by rank 0, for all ranks.
std::vector<std::pair<std::string, Bytes>> list_files(const fs::path& directory) {
    std::vector<std::pair<std::string, Bytes>> files;
    try {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
            if (entry.is_regular_file() && entry.file_size() > 0) {
                files.emplace_back(entry.path().lexically_relative(directory).string(),
                                   entry.file_size());
            }
        }
    } catch (const fs::filesystem_error& error) {
        io::throw_errno(error.code().value(), "list directory", directory);
    }
    if (files.empty()) {
        throw Error(ErrorCode::not_found, "--source " + directory.string() + " holds no files",
                    "give a directory with files to read");
    }
    std::sort(files.begin(), files.end());
    return files;
}

ConcatenatedFiles share_source(mpi::Comm& comm, const fs::path& directory) {
    std::vector<SizedFile> files;
    for (const auto& [name, size] : mpi::share(comm, 0, [&] { return list_files(directory); })) {
        files.push_back({directory / name, size});
    }
    return ConcatenatedFiles(std::move(files));
}

Bench bench_of(mpi::Comm& comm, const Options& options) {
    Bench bench;
    bench.size = options.bench_size;
    if (options.bench_source) {
        bench.source = share_source(comm, *options.bench_source);
        bench.size = bench.source.size();
    }
    bench.file_size = options.max_shard_size;
    bench.extent = options.extent;
    bench.n_repeats = options.n_repeats;
    bench.sync = options.sync;
    bench.is_cold = options.is_cold;
    bench.copies_only = options.copies_only;
    return bench;
}

ordered_json pass_json(const Pass& pass) {
    return {{"gbs", pass.gbs()},
            {"wall_s", pass.median_s()},
            {"cpu_s", pass.median_cpu_s()},
            {"runs_wall_s", pass.wall_s},
            {"runs_cpu_s", pass.cpu_s}};
}

/// Fields are never renamed or removed.
std::string bench_json(mpi::Comm& comm, const Options& options, const Bench& bench,
                       const Measured& measured) {
    ordered_json json = {{"schema", kRoofSchema}};
    json["tool"] = {{"version", version()}, {"git", git_version()}};
    json["command"] = kRoofCommand;
    json["mpi"] = comm.library();
    json["ranks"] = comm.size();
    json["directory"] = options.local_dir.string();
    json["source"] =
        options.bench_source ? ordered_json(options.bench_source->string()) : ordered_json();
    json["bytes"] = bench.size;
    json["file_bytes"] = bench.file_size;
    json["extent_bytes"] = bench.extent;
    json["fsync"] = bench.sync;
    json["cold"] = bench.is_cold;
    json["stayed_cached_bytes"] = measured.stayed_cached;
    json["repeats"] = bench.n_repeats;
    json["write"] = pass_json(measured.write);
    json["read"] = pass_json(measured.read);
    json["copy"] = pass_json(measured.copy);
    json["copy_behind"] = pass_json(measured.copy_behind);
    json["roof"] = pass_json(measured.roof());
    return json_text(json);
}

std::string rounded(double value) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.2f", value);
    return text.data();
}

std::vector<std::string> row_of(const std::string& name, const Pass& pass) {
    return {name, rounded(pass.gbs()), rounded(pass.median_s()), rounded(pass.median_cpu_s())};
}

std::string text_of(mpi::Comm& comm, const Bench& bench, const Measured& measured) {
    std::string text = human_bytes(bench.size) + ", " + std::to_string(comm.size()) +
                       (comm.size() == 1 ? " rank" : " ranks") + ", extents of " +
                       human_bytes(bench.extent) + (bench.sync ? ", fsync" : ", no fsync") +
                       (bench.is_cold ? ", cold" : ", warm") + "; medians of " +
                       std::to_string(bench.n_repeats) + "\n";
    std::vector<std::vector<std::string>> rows{{"", "GB/s", "seconds", "CPU s"}};
    if (!bench.copies_only) {
        rows.push_back(row_of("write", measured.write));
        rows.push_back(row_of("read", measured.read));
    }
    const bool is_behind = &measured.roof() == &measured.copy_behind;
    rows.push_back(row_of(is_behind ? "copy" : "copy (roof)", measured.copy));
    rows.push_back(row_of(is_behind ? "copy, written behind (roof)" : "copy, written behind",
                          measured.copy_behind));
    return text + table({Align::left, Align::right, Align::right, Align::right}, rows);
}

void say_cached(const Bench& bench, const Measured& measured, Log& log) {
    if (bench.is_cold && measured.stayed_cached > 0) {
        log.warning("not cold: " + human_bytes(measured.stayed_cached) + " of " +
                    human_bytes(bench.size) +
                    " stayed in the page cache, or the system does not say");
    }
}

}  // namespace

int iobench(mpi::Comm& comm, const Options& options, Log& log) {
    check_report(comm, options.report, {});
    Bench bench = bench_of(comm, options);
    Scratch scratch(comm, options.local_dir, ".shardweld-iobench-");
    bench.directory = scratch.path();
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            const auto n_files = to_index(bench.size / bench.file_size + 1, "the number of files");
            const Bytes n_times = options.bench_source ? 1 : 2;
            publish::require_room(publish::room_at(scratch.path(), search_path()), scratch.path(),
                                  checked_mul_bytes(n_times, bench.size, "--size"),
                                  static_cast<Index>(n_times) * n_files);
            stripe(scratch.path(), options);
        }
    });
    const Measured measured = measure::run_bench(comm, bench);
    say_cached(bench, measured, log);
    if (options.is_kept) {
        scratch.keep();
        log.info("kept " + scratch.path().string());
    }
    print(comm, std::cout, [&] {
        const std::string json = bench_json(comm, options, bench, measured);
        if (options.report) {
            write_json(json, *options.report, options.sync);
        }
        return options.json ? json : text_of(comm, bench, measured);
    });
    return 0;
}

}  // namespace shardweld::app
