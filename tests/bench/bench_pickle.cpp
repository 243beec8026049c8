// Speed and memory of reading checkpoints' metadata: processor time by the byte of pickle and peak
// memory of one scan, file by file as a merge does it. Knows nothing of how it is done.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/containers/pickle.hpp"
#include "formats/containers/zip.hpp"
#include "formats/format.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "pickle_cases.hpp"

namespace {

namespace fs = std::filesystem;
namespace bench = shardweld::bench;
namespace formats = shardweld::formats;
namespace io = shardweld::io;
using shardweld::Index;

/// Runs `work` in a process of its own, so that its memory is its own.
void apart(const std::function<void()>& work) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
        int code = 0;
        try {
            work();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
            code = 1;
        }
        std::fflush(stdout);
        ::_exit(code);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
        std::exit(1);
    }
}

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double processor_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

shardweld::Bytes pickle_bytes(const fs::path& path) {
    const auto file = io::InputFile::open(path);
    if (path.filename() == ".metadata") {
        return file.size();
    }
    const auto archive = formats::ZipArchive::read(file, 0, file.size());
    return archive.find(archive.prefix + "data.pkl")->size;
}

/// Scans the first file again and again for about a second, as a rank scans one file after another.
void measure(const std::string& name, const fs::path& directory, const std::string& backend) {
    formats::InputRequest request;
    request.directory = directory;
    request.backend = backend;
    const auto location = formats::locate(request);
    const auto& format = formats::format_of(location);
    const std::string file = format.scan_list(location).front();
    const auto bytes = static_cast<double>(pickle_bytes(location.directory / file));
    const formats::PickleMemory memory;
    const double base = peak_mib();
    const auto first = format.scan(location, file);
    const double peak = peak_mib() - base;
    const double begin = processor_seconds();
    int n_scans = 0;
    while (n_scans == 0 || processor_seconds() - begin < 1) {
        (void)format.scan(location, file);
        ++n_scans;
    }
    const double taken = (processor_seconds() - begin) / n_scans;
    std::printf("%-34s %8.2f MB  %9.3f ms  %6.0f MB/s  peak %6.0f MiB  %zu tensors\n", name.c_str(),
                bytes / 1e6, taken * 1e3, bytes / taken / 1e6, peak,
                first.tensors.size() + first.shards.size());
}

struct Case {
    std::string name;
    std::string backend;
    std::function<void(const fs::path&)> write;
};

void run(const Case& one, const fs::path& directory) {
    if (fs::is_empty(directory)) {
        apart([&] { one.write(directory); });
    }
    const fs::path source = fs::exists(directory / "source") ? directory / "source" : directory;
    apart([&] { measure(one.name, source, one.backend); });
}

std::vector<Case> cases() {
    return {
        {"fsdp2, 270 DTensors", "fsdp",
         [](const fs::path& out) { bench::write_dtensor_case(out, 30); }},
        {"fsdp2, 90,000 DTensors", "fsdp",
         [](const fs::path& out) { bench::write_dtensor_case(out, 10000); }},
        {"fsdp1, 300 tensors x 1,024 ranks", "fsdp",
         [](const fs::path& out) { bench::write_sharded_case(out, 300, 1024); }},
        {"legacy, 60 layers", "megatron",
         [](const fs::path& out) { bench::write_legacy_case(out, 60); }},
        {"dcp, 100,000 chunks", "dcp",
         [](const fs::path& out) { bench::write_dcp_case(out, 1000, 100); }},
        {"dcp, 1,000,000 chunks", "dcp",
         [](const fs::path& out) { bench::write_dcp_case(out, 1000, 1000); }},
        {"dcp, 1,000,000 chunks, many tensors", "dcp",
         [](const fs::path& out) { bench::write_dcp_case(out, 100000, 10); }},
    };
}

}  // namespace

// bench_pickle [PART_OF_A_NAME [DIRECTORY]]: with a directory, files are kept and found there, so
// that a profiler sees nothing but scans.
int main(int n_arguments, char** arguments) {
    const std::string only = n_arguments > 1 ? arguments[1] : "";
    for (const Case& one : cases()) {
        if (one.name.find(only) == std::string::npos) {
            continue;
        }
        if (n_arguments > 2) {
            const fs::path kept = fs::path(arguments[2]) / one.name;
            fs::create_directories(kept);
            run(one, kept);
            continue;
        }
        std::string place = (fs::temp_directory_path() / "bench_pickle_XXXXXX").string();
        const fs::path directory = ::mkdtemp(place.data());
        run(one, directory);
        fs::remove_all(directory);
    }
    return 0;
}
