// bench_io DIR SOURCE: plain parallel reading, writing and copying of the files below SOURCE,
// beside which merges are timed; as JSON.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include "io/errno.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "plain_io.hpp"

namespace {

using namespace shardweld;
using bench::ConcatenatedFiles;
using bench::Measured;
using bench::Pass;
using bench::PlainIo;
using nlohmann::ordered_json;

/// All files below a directory with content, sorted: read once, by rank 0, for all ranks.
std::vector<std::pair<std::string, Bytes>> list_files(const fs::path& directory) {
    std::vector<std::pair<std::string, Bytes>> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file() && entry.file_size() > 0) {
            files.emplace_back(entry.path().lexically_relative(directory).string(),
                               entry.file_size());
        }
    }
    if (files.empty()) {
        throw Error(ErrorCode::not_found, directory.string() + " holds no files");
    }
    std::sort(files.begin(), files.end());
    return files;
}

ConcatenatedFiles share_source(mpi::Comm& comm, const fs::path& directory) {
    std::vector<bench::SizedFile> files;
    for (const auto& [name, size] : mpi::share(comm, 0, [&] { return list_files(directory); })) {
        files.push_back({directory / name, size});
    }
    return ConcatenatedFiles(std::move(files));
}

/// Made by the first rank, and gone with the object.
class OwnDirectory {
  public:
    OwnDirectory(mpi::Comm& comm, const fs::path& above) : is_maker_(comm.rank() == 0) {
        path_ = mpi::share(comm, 0, [&] {
            std::string name = (fs::absolute(above) / "bench_io.XXXXXX").string();
            if (mkdtemp(name.data()) == nullptr) {
                io::throw_errno(errno, "make a directory in", above);
            }
            return name;
        });
    }
    OwnDirectory(const OwnDirectory&) = delete;
    OwnDirectory& operator=(const OwnDirectory&) = delete;
    OwnDirectory(OwnDirectory&&) = delete;
    OwnDirectory& operator=(OwnDirectory&&) = delete;
    ~OwnDirectory() {
        if (is_maker_) {
            std::error_code ignored;
            fs::remove_all(path_, ignored);
        }
    }
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
    bool is_maker_;
};

ordered_json pass_json(const Pass& pass) {
    return {{"gbs", pass.gbs()}, {"wall_s", pass.wall_s}, {"cpu_s", pass.cpu_s}};
}

ordered_json measured_json(const mpi::Comm& comm, const PlainIo& asked, const Measured& measured) {
    return {{"ranks", comm.size()},
            {"bytes", asked.source.size()},
            {"fsync", asked.sync},
            {"cold", asked.is_cold},
            {"stayed_cached_bytes", measured.stayed_cached},
            {"write", pass_json(measured.write)},
            {"read", pass_json(measured.read)},
            {"copy", pass_json(measured.copy)},
            {"copy_behind", pass_json(measured.copy_behind)},
            {"roof", pass_json(measured.roof())}};
}

void run(const cxxopts::ParseResult& given) {
    const auto comm = mpi::world_comm();
    PlainIo asked;
    asked.source = share_source(*comm, given["source"].as<std::string>());
    asked.sync = !given["no_fsync"].as<bool>();
    asked.copies_only = given["copies_only"].as<bool>();
    asked.is_cold = given["cold"].as<bool>();
    const OwnDirectory own(*comm, given["directory"].as<std::string>());
    asked.directory = own.path();
    const Measured measured = bench::measure(*comm, asked);
    if (comm->rank() == 0) {
        std::ofstream out(given["report"].as<std::string>());
        out << measured_json(*comm, asked, measured).dump(1) << '\n';
        if (!out.flush()) {
            throw Error(ErrorCode::io, "cannot write the report");
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    cxxopts::Options options("bench_io", "Plain parallel reading, writing and copying, as JSON.");
    auto add = options.add_options();
    add("directory", "where files are made", cxxopts::value<std::string>());
    add("source", "the files below it are read", cxxopts::value<std::string>());
    add("report", "file of JSON", cxxopts::value<std::string>()->default_value("/dev/stdout"));
    add("copies_only", "measure only the copies");
    add("cold", "first drop the source from the page cache");
    add("no_fsync", "do not fsync what is written");
    options.parse_positional({"directory", "source"});
    options.positional_help("DIR SOURCE");
    try {
        run(options.parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_io: %s\n", error.what());
        return 1;
    }
    return 0;
}
